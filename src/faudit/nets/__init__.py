"""Networks: one file each, all with the interface of ``nets.net.Net``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from faudit.settings import Configurable

if TYPE_CHECKING:
    from faudit.nets.net import Net

NETS: Configurable[type[Net]] = Configurable(
    "net",
    {
        "resmlp": "faudit.nets.resmlp:ResMLP",
        "vit": "faudit.nets.vit:ViT",
        "student": "faudit.nets.student:StudentNet",
        "cnn": "faudit.nets.cnn:SmallCNN",
        "mlp": "faudit.nets.mlp:MLP",
        "lenet": "faudit.nets.lenet:LeNet",
        "resnet": "faudit.nets.resnet:ResNet",
    },
    contract="faudit.nets.net:Net",
)
