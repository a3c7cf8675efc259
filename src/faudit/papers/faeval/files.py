"""The paper's result files: their names, the experiments they hold, and their names for our entries.

Gradients in these files are of the mean loss over the n samples of the evaluation buffer. Ours are of each sample's own
loss. So ``export`` divides by n and ``import_`` multiplies by n. A number that overflowed is null. An imported run
keeps the original entries and the rest of its file, so that exporting it gives the same document.
"""

from __future__ import annotations

PENALTIES = ("0.0001", "0.001", "0.01", "0.1")  # λ as file names and experiments spell it
# Every file of the paper under results/: key of a log in it → experiment.
FILES: dict[str, dict[str, str]] = {
    "snapshot_evolution_v2/snapshot_evolution_s{seed}.json": {"bp_log": "resmlp bp", "dfa_log": "resmlp dfa"},
    "snapshot_no_outln_v1/snapshot_noLN_s{seed}.json": {"bp_log": "noln bp", "dfa_log": "noln dfa"},
    "snapshot_no_outln_v1/snapshot_fa_canonical_noln_s{seed}.json": {"fa_log": "noln fa"},
    "snapshot_vit_v1/snapshot_vit_s{seed}.json": {"bp_log": "vit bp", "dfa_log": "vit dfa"},
    "snapshot_vit_v1/snapshot_fa_canonical_s{seed}.json": {"fa_log": "vit fa"},
    "snapshot_synth_v1/snapshot_synth_a1.0_L4_s{seed}.json": {"bp_log": "student bp", "dfa_log": "student dfa"},
    "snapshot_synth_v1/snapshot_fa_canonical_s{seed}.json": {"fa_log": "student fa"},
    **{f"dfa_residual_penalty/dfa_pen_lam{v}_s{{seed}}.json": {"log": f"matched dfa λ={v}"} for v in PENALTIES},
}
RULE_OF = {"bp_log": "bp", "dfa_log": "dfa", "fa_log": "fa", "log": "dfa"}
MARKS = {"noln": "noln", "no_outln": "noln", "snapshot_synth": "student", "snapshot_vit": "vit", "evolution": "resmlp"}
# Samples and classes of the test sets, which the files do not tell. A verdict needs them.
TEST_SETS = {"cifar10": (10_000, 10), "teacher": (4_000, 10), "digits": (360, 10), "mnist": (10_000, 10)}
PENALTY = "log"  # the entries of this log are four numbers: epoch, h_L_norm, g_2_norm, acc_eval
# Whether the net is a ViT → the paper's names of our hidden_norms, grad_norms and grad_norms_frobenius.
NAMES = {
    False: ("hidden_norms", "bp_grad_norms_per_sample_med", "bp_grad_norms_F"),
    True: ("hidden_norms_cls", "bp_grad_per_sample_l2_med", "bp_grad_norms_F"),
}
PLAIN = ("seed", "epochs", "batch_size", "optimizer", "lr", "weight_decay", "data", "net", "no_terminal_norm")
SHAPE = {"depth": "depth", "d_hidden": "width"}  # the paper's names of our settings, outside its config
