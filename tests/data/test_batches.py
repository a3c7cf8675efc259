"""Order and augmentation: vectorised, but equal to the loop one would write; drawn from the run's generators alone."""

from __future__ import annotations

import dataclasses

import pytest
import torch
import torch.nn.functional as F

from faudit.data.batches import Batches, crops, mirrored
from faudit.data.dataset import Dataset
from faudit.errors import DataError
from faudit.rng import generators
from tests.support.nets import tiny_dataset


def batches(dataset: Dataset, *, batch_size: int = 8, augment: bool = True, random_targets: bool = False) -> Batches:
    return Batches(dataset, batch_size, augment, random_targets, torch.float32, torch.device("cpu"))


def colourful(n: int = 40) -> Dataset:
    draw = torch.Generator().manual_seed(3)
    x = torch.randint(1, 256, (n, 3, 6, 5), generator=draw, dtype=torch.uint8)
    y = torch.arange(n) % 4
    return Dataset("colourful", x, y, x, y, 4, (0.4, 0.5, 0.6), (0.2, 0.3, 0.4), crop=2, flip=True)


def test_crops_equal_the_loop() -> None:
    x = colourful().train_x
    draw = torch.Generator().manual_seed(1)
    rows, columns = torch.randint(5, (2, len(x)), generator=draw)
    chosen = torch.randperm(len(x), generator=draw)
    got = crops(F.pad(x, (2,) * 4), chosen, rows=rows, columns=columns, crop=2)
    for i in range(len(x)):
        padded = torch.zeros(3, 10, 9, dtype=torch.uint8)
        padded[:, 2:8, 2:7] = x[chosen[i]]
        r, c = int(rows[i]), int(columns[i])
        assert torch.equal(got[i], padded[:, r : r + 6, c : c + 5])


def test_mirrored_samples_are_those_that_were_drawn() -> None:
    x = colourful().train_x
    flips = torch.rand(len(x), generator=torch.Generator().manual_seed(2)) < 0.5
    got = mirrored(x, flips)
    for sample, flipped, image in zip(got, flips, x, strict=True):
        assert torch.equal(sample, image.flip(-1) if flipped else image)


def test_an_epoch_is_every_sample_once_in_an_order_of_its_own() -> None:
    data = tiny_dataset()
    marked = dataclasses.replace(
        data, train_x=torch.arange(60, dtype=torch.uint8).view(60, 1, 1, 1).expand(60, 1, 4, 4).clone()
    )
    named = generators(0)
    seen = []
    for _ in range(2):
        drawn = list(batches(marked).epoch(named))
        assert [len(x) for x, _ in drawn] == [8] * 7 + [4]
        x = torch.cat([x for x, _ in drawn])
        order = ((x[:, 0, 0, 0] * 0.3 + 0.5) * 16).round().int().tolist()
        assert sorted(order) == list(range(60))
        assert torch.cat([y for _, y in drawn]).tolist() == [data.train_y[i] for i in order]
        seen.append(order)
    assert seen[0] != seen[1] and seen[0] != sorted(seen[0])


def test_augmented_samples_are_shifted_and_flipped_copies_with_black_before_normalising() -> None:
    data = colourful(8)
    black = (0.0 - torch.tensor(data.mean)) / torch.tensor(data.std)
    named = generators(5)
    flipped = plain = shifted = 0
    for _ in range(20):
        for x, y in batches(data).epoch(named):
            for image, label in zip(x, y, strict=True):
                candidates = []
                for i in (data.train_y == label).nonzero()[:, 0].tolist():
                    padded = F.pad(data.train_x[i], (2, 2, 2, 2))
                    for r in range(5):
                        for c in range(5):
                            cut = padded[:, r : r + 6, c : c + 5]
                            candidates += [(cut, False, (r, c)), (cut.flip(-1), True, (r, c))]
                hits = [
                    (f, at)
                    for cut, f, at in candidates
                    if torch.allclose(data.normalise(cut[None])[0], image, atol=1e-6)
                ]
                assert hits, "an augmented sample is no crop of any sample of its class"
                flipped, plain = flipped + hits[0][0], plain + (not hits[0][0])
                shifted += hits[0][1] != (2, 2)
                if hits[0][1][0] == 0:
                    torch.testing.assert_close(image[:, 0, 0], black)
    assert 0.3 < flipped / (flipped + plain) < 0.7 and shifted > 0.8 * (flipped + plain)


def test_without_augmentation_samples_come_as_they_are() -> None:
    data = colourful()
    drawn = torch.cat([x for x, _ in batches(data, augment=False).epoch(generators(0))])
    want = data.normalise(data.train_x)
    assert sorted(drawn.flatten(1).sum(1).tolist()) == pytest.approx(sorted(want.flatten(1).sum(1).tolist()), abs=1e-3)


def test_without_shuffling_every_epoch_has_the_datasets_own_order() -> None:
    data = colourful()
    ordered, random = dataclasses.replace(batches(data, augment=False), shuffle=False), generators(0)
    for _ in range(2):
        drawn = list(ordered.epoch(random))
        assert torch.equal(torch.cat([x for x, _ in drawn]), data.normalise(data.train_x))
        assert torch.equal(torch.cat([y for _, y in drawn]), data.train_y)
    assert not torch.equal(torch.cat([y for _, y in batches(data).epoch(random)]), data.train_y)


def test_a_last_batch_that_is_smaller_can_be_left_out_and_a_whole_one_stays() -> None:
    data = colourful()
    n = len(data.train_x)
    for size in (n - 1, n // 2, n):
        plain = batches(data, batch_size=size, augment=False)
        kept = dataclasses.replace(plain, drop_last=True)
        whole = [x for x, _ in plain.epoch(generators(0)) if len(x) == size]
        drawn = [x for x, _ in kept.epoch(generators(0))]
        assert sum(map(len, drawn)) == kept.samples and len(drawn) == len(whole) == n // size
        assert all(torch.equal(one, other) for one, other in zip(drawn, whole, strict=True))


def test_unit_pixels_are_the_raw_ones_from_0_to_1() -> None:
    data = colourful()
    x = torch.tensor([0, 51, 255], dtype=torch.uint8).view(1, 3, 1, 1)
    unit = data.with_pixels("unit")
    assert unit.normalise(x).flatten().tolist() == pytest.approx([0.0, 0.2, 1.0], abs=1e-7)
    by_hand = [(value - mean) / std for value, mean, std in zip((0.0, 0.2, 1.0), data.mean, data.std, strict=True)]
    assert data.with_pixels("standard") is data
    assert data.normalise(x).flatten().tolist() == pytest.approx(by_hand, rel=1e-5)
    assert unit.fingerprint() == data.fingerprint() and torch.equal(unit.train_x, data.train_x)
    drawn = torch.cat([batch for batch, _ in batches(unit).epoch(generators(0))])
    assert drawn.min() == 0.0 and 0.9 < drawn.max() <= 1.0  # the border of a crop is black


def test_augmentation_reaches_across_chunks_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    data = colourful()
    whole = list(batches(data).epoch(generators(2)))
    monkeypatch.setattr("faudit.data.batches.CHUNK", 1)
    for (x, y), (other_x, other_y) in zip(whole, batches(data).epoch(generators(2)), strict=True):
        assert torch.equal(x, other_x) and torch.equal(y, other_y)


def test_random_targets_are_fresh_and_leave_order_and_crops_alone() -> None:
    data = colourful()
    true, fresh = generators(1), generators(1)
    labels = []
    for _ in range(2):
        plain = list(batches(data).epoch(true))
        random = list(batches(data, random_targets=True).epoch(fresh))
        assert all(torch.equal(a, b) for (a, _), (b, _) in zip(plain, random, strict=True))
        labels.append(torch.cat([y for _, y in random]))
        assert not torch.equal(labels[-1], torch.cat([y for _, y in plain]))
        assert int(labels[-1].min()) >= 0 and int(labels[-1].max()) < data.classes
    assert not torch.equal(*labels)


def test_a_batch_larger_than_the_data_is_refused() -> None:
    with pytest.raises(DataError, match="batch-size 61 is larger than the data: tiny has 60"):
        batches(tiny_dataset(), batch_size=61)
    assert len(list(batches(tiny_dataset(), batch_size=60).epoch(generators(0)))) == 1


def test_a_dataset_checks_what_it_is_given() -> None:
    data = tiny_dataset()
    for change in (
        {"train_x": data.train_x.double()},
        {"train_x": data.train_x[:, 0]},
        {"train_y": data.train_y[:-1]},
        {"train_y": data.train_y.int()},
        {"test_y": data.test_y + 4},
        {"test_y": data.test_y - 1},
        {"mean": (0.5, 0.5)},
    ):
        with pytest.raises(DataError, match="tiny t"):
            dataclasses.replace(data, **change)


def test_the_fingerprint_knows_every_pixel_and_label() -> None:
    data = tiny_dataset()
    assert data.fingerprint() == tiny_dataset().fingerprint()
    x, y = data.test_x.clone(), data.train_y.clone()
    x[3, 0, 1, 1] += 1
    y[5] = (y[5] + 1) % 5
    prints = {
        data.fingerprint(),
        dataclasses.replace(data, test_x=x).fingerprint(),
        dataclasses.replace(data, train_y=y).fingerprint(),
    }
    assert len(prints) == 3
