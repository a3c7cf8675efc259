"""Planted defects: each of these one-line mistakes, all made by somebody before, must be caught by a test.

The package is copied, one line of the copy is spoiled, and the named tests run against the copy: they must fail. That
they pass on the unspoiled code is what the rest of the suite shows. ``old`` must occur exactly once, so a mutation
cannot silently stop mutating.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.paths import ROOT

PAGE, SEEN = "tests/report/test_page.py", "tests/report/test_collection.py"
HAND = "tests/rules/test_by_hand.py"
JOINT = "tests/rules/test_joint_step.py"
STACKED = "tests/stack/test_stack.py::test_every_rule_and_net_trains_to_the_same_bits_as_alone"
RULES, NETS = "tests/laws/test_rules.py", "tests/laws/test_nets.py"
ONCE = "test_evaluation_draws_and_writes_nothing_and_training_writes_only_running_statistics_once"
FOREIGN, COPIES, READING = (f"tests/watch/test_{name}.py" for name in ("model", "copies", "reading"))
WATCH, UNDISTURBED, COMPARE, CONTROL = (
    f"tests/watch/test_{name}.py" for name in ("loop", "undisturbed", "compare", "control")
)
DEVICES = "tests/test_devices.py::test_an_epoch_reads_its_loss_once_and_moves_only_what_its_steps_draw"
ROUNDED = "tests/test_amp.py::test_the_update_is_that_of_float32_but_for_the_rounding_of_bfloat16"
SECOND = "test_every_number_is_that_of_a_second_computation"
AT_TAPS = "test_the_gradient_is_judged_at_the_states_at_which_audit_model_judges_it"
NOT_MEASURED = "tests/watch/test_refusals.py"
OWN_BACKWARD = "test_a_backward_pass_of_its_own_is_refused_unless_a_plain_twin_tells_the_gradient"
HANDMADE = "test_cosine_ratio_and_signs_are_those_of_a_computation_by_hand"
ANSWERED = "test_a_job_that_was_answered_is_gone_before_its_run_is_submitted_again"
SAME_BITS = "test_training_is_the_same_bit_for_bit"
IN_PLACE = "test_gradients_equal_a_slow_loop_though_activations_write_in_place"
TRUE_CREDIT = "test_the_true_gradient_as_credit_has_gamma_one_its_negative_minus_one_and_a_random_one_nothing"
REASONS = "test_every_probe_is_measured_or_the_reason_is_known"
ROWS = "tests/store/test_rows.py"
LAYERS = "tests/rules/test_dfa_layers.py"
AS_WIDE = "test_the_null_without_fresh_feedback_is_as_wide_as_with_it"
KINDS = "tests/papers/test_kinds.py"
EXPORT, FIGURES = "tests/papers/faeval/test_export.py", "tests/figures/test_figures.py"
MEAN_LOSS = "test_an_entry_has_the_papers_words_and_the_gradients_of_the_mean_loss"
DEEP = "test_deep_means_every_block_but_the_first_and_undefined_stays_undefined"
GEOMETRIC = "test_the_middle_is_the_geometric_mean_and_the_band_one_deviation_of_the_logarithm"
SHORTER = "test_shorter_runs_stand_in_where_the_length_was_left_open_and_it_is_told"
PITFALLS, EDGES = "tests/probes/test_pitfalls.py", "tests/probes/test_edges.py"
BY_HAND = f"{EDGES}::test_a_probe_at_an_edge_gives_the_number_computed_by_hand_or_none"
PER_SAMPLE = "test_a_norm_is_of_each_sample_over_its_features"
NOT_CLAMPED = "test_gamma_of_a_gradient_far_below_1e_8_is_not_pulled_to_zero"
HALF = "test_gradients_below_what_float16_holds_keep_their_size_and_direction"
OTHER_FEEDBACK = "test_another_feedback_in_the_checkpoint_is_another_gamma"
LACKING = "test_a_checkpoint_that_lacks_a_tensor_is_refused_and_not_judged"
NEVER_SCORES = "test_a_rule_that_lacks_a_tensor_of_its_state_never_scores"
OWN_COSINE = "test_gamma_is_the_mean_over_samples_of_each_samples_own_cosine"
ONE_ROW = "test_headline_deep_interior_first_and_last_of_one_row_by_hand"
BLOCK_0 = "test_a_good_block_0_does_not_hide_deep_blocks_that_learn_nothing"
COMPILED = "tests/rules/test_compiled.py"
NOT_WRITTEN = "test_compiling_changes_no_weight_and_draws_from_no_generator_of_the_run"
STRIDES = "test_a_gradient_of_any_strides_is_applied_as_it_is"
NO_VALUE = "test_without_a_gradient_exactly_what_needs_its_direction_has_no_value"
FIRES = "test_a_check_fires_on_what_it_is_for"
FIRST_TAP = "test_the_only_block_and_the_first_tap_of_a_foreign_model_are_judged"
SHARED = "test_taps_that_share_one_feedback_hang_together_under_the_null_too"
NEVER_A_PASS = "test_what_was_not_measured_is_never_a_pass"
LEFT_OUT = "test_a_parameter_left_out_of_a_step_is_left_alone"
STATS = "tests/test_stats.py"
OWN = "tests/test_own_members.py"
TRAINED = "tests/watch/test_trained.py"
OTHER_SOURCE = "test_an_unfinished_run_is_not_resumed_with_other_source"
BY_SAMPLE = "tests/analysis/test_samples.py"
PAIRED, WHERE = "tests/analysis/test_compare.py", "tests/store/test_where.py"
UNFINISHED = "tests/cli/test_show.py::test_an_unfinished_run_does_not_show_the_accuracy_of_epoch_0"
MISSING_ENTRY = "tests/laws/test_checks.py::test_a_missing_entry_is_not_measured_and_never_a_pass"
FROZEN, CHECKS = "tests/rules/test_frozen.py", "tests/audit/test_checks.py"
OWN_STEP = "test_a_control_of_a_rule_of_ones_own_keeps_its_defaults_and_its_step"
SAYS_FROZEN = "test_a_rule_says_whether_its_blocks_train"
BY_WILSON = "test_chance_asks_the_lower_end_of_wilsons_interval_by_hand"
FITTED = "tests/probes/test_fitted.py"
OPEN_ONES = "test_gamma_is_the_float64_mean_over_the_samples_above_the_limit_and_the_old_mean_is_another"
PARTLY = "test_a_probe_of_a_partly_fitted_network_gives_the_number_computed_by_hand"
OWN_TYPE = "test_the_limit_is_that_of_the_networks_own_type"
HUNDRED = "test_the_limit_is_a_hundred_rounding_steps_of_one"
NOT_A_NUMBER = "test_an_error_that_is_no_number_is_not_fitted"
LOCAL_LOSS, PEPITA, FORWARD = (f"tests/rules/test_{name}.py" for name in ("local_loss", "pepita", "forward_forward"))
VECTORS = "tests/papers/lillicrap/test_runs.py"
NO_ACCURACY = f"{VECTORS}::test_a_row_of_vectors_has_no_accuracy_and_the_audit_says_what_it_cannot_ask"
GIVEN = "test_an_untrained_model_is_not_trustworthy_and_a_frozen_accuracy_given_by_hand_is_named"
BACKWARD, SIGNS, KP, MIRROR = (
    f"tests/rules/test_{name}.py" for name in ("backward", "sign_symmetry", "kolen_pollack", "weight_mirror")
)
SILENT_BP = f"{RULES}::test_a_rule_with_feedback_teaches_no_part_below_the_last_block_what_bp_teaches_it"
BY_LOOPS = "test_a_convolution_sends_its_error_back_through_its_feedback_by_explicit_loops"
OWN_LOSS = "test_the_credit_is_the_pseudo_gradient_of_each_samples_own_loss"

EP, AUXILIARY, STATE, BRIDGE, PLACEBO = (
    f"tests/rules/test_{name}.py" for name in ("ep", "auxiliary", "state_bridge", "credit_bridge", "placebo")
)


@dataclass(frozen=True)
class Defect:
    """One spoiled line and the tests that must notice."""

    name: str
    file: str
    old: str
    new: str
    tests: str


DEFECTS = [
    Defect("error of the wrong sign", "nets/net.py",
           "F.softmax(logits, dim=1) - one_hot(y, logits)", "one_hot(y, logits) - F.softmax(logits, dim=1)", HAND),
    Defect("the derivative of the activation forgotten", "nets/resmlp.py",
           "z = gelu(F.linear(z,", "z = (lambda u: u + (gelu(u) - u).detach())(F.linear(z,", HAND),
    Defect("feedback redrawn at every step", "rules/dfa.py",
           'error @ state[f"B.{l}"].T', 'error @ torch.randn_like(state[f"B.{l}"]).T', RULES),
    Defect("feedback never used: plain BP instead", "rules/dfa.py",
           "class DFA(LocalRule):",
           "class DFA(LocalRule):\n    def step(self, *a):\n"
           "        from faudit.rules.bp import BP\n        return BP().step(*a)",
           RULES),
    Defect("a block that never trains", "rules/rule.py",
           "return not is_buffer(name)", 'return not name.startswith("blocks.1.")', HAND),
    Defect("frozen blocks that train", "rules/frozen.py",
           'return not name.startswith("blocks.")', "return True", HAND),
    Defect("the graph not cut between blocks", "nets/net.py",
           "h = self.join(h, branches[l].detach())", "h = self.join(h, branches[l])", "tests/laws/test_nets.py"),
    Defect("the embedding not cut from the first block", "nets/net.py",
           "h = embedded.detach()", "h = embedded", "tests/laws/test_nets.py"),
    Defect("mean for sum in the penalty", "rules/rule.py",
           "penalty / len(trace.logits) * total", "penalty / trace.branches[0].numel() * total", RULES),
    Defect("credit not normalised per sample", "rules/local.py",
           "torch.linalg.vector_norm(credit, dim=1, keepdim=True) * (share * credit.shape[1] ** -0.5)",
           "credit.square().mean().sqrt() * share", HAND),
    Defect("the batch mean forgotten in the local loss", "rules/local.py",
           "self.credit_eps, share=n)", "self.credit_eps)", HAND),
    Defect("credit normalised although it should not be", "rules/local.py",
           'credit / n if self.credit_norm == "none" else', 'credit / n if False else',
           "tests/rules/test_local.py"),
    Defect("the decay of blocks for the readout too", "rules/local.py",
           'if name.startswith("blocks."))\n        return [Group', 'if True)\n        return [Group',
           "tests/rules/test_local.py"),
    Defect("step counts that a stack moved are not found again", "optimizers/fused.py",
           "or not holds(counts, states)", "or len(counts) != len(states)", "tests/stack/test_stack.py"),
    Defect("one clip for all blocks together", "rules/local.py",
           "found.index(one) for one in blocks", "0 for one in blocks", JOINT),
    Defect("the penalty of the first run for the whole stack", "stack/rules.py",
           "(penalty / batch.size) for penalty in penalties", "(penalties[0] / batch.size) for _ in penalties",
           STACKED),
    Defect("the rate of the first run for the whole stack", "stack/stack.py",
           "(learning_rate(one.config, epoch, one.config.lr), one",
           "(learning_rate(one.config, epoch, self.experiments[0].config.lr), one", STACKED),
    Defect("one generator for all runs of a stack", "stack/stack.py",
           "one.batches.epoch(one.state.generators) for one",
           "one.batches.epoch(self.experiments[0].state.generators) for one", STACKED),
    Defect("one epoch number for all runs of a stack", "stack/stack.py",
           "(learning_rate(one.config, epoch, one.config.lr), one",
           "(learning_rate(one.config, epochs[0], one.config.lr), one",
           "tests/stack/test_stack.py::test_runs_may_be_at_different_epochs_and_change_between_stack_and_alone"),
    Defect("one count of steps for neighbours of one rate", "stack/stack.py",
           "one.config.weight_decay, count)", "one.config.weight_decay, 0.0)",
           "tests/stack/test_stack.py::test_neighbours_of_one_rate_keep_their_own_counts_of_steps"),
    Defect("one norm for the gradients of all runs", "stack/rules.py",
           "torch.linalg.vector_norm(one.flatten(1), dim=1)",
           "torch.linalg.vector_norm(one).expand(len(one))", STACKED),
    Defect("a stack that is not tried before it is used", "sweep/together.py",
           "len(members) > 1 and agrees(experiments)", "len(members) > 1",
           "tests/sweep/test_together.py::test_runs_that_would_not_be_the_same_are_trained_one_by_one"),
    Defect("a rehearsal without the smaller last batch", "stack/stack.py",
           "reduced(batches.batch_size + rest)", "reduced(batches.batch_size)",
           "tests/stack/test_stack.py::test_a_rehearsal_has_a_batch_of_every_size"),
    Defect("the last job of a run owns it, not the first", "sweep/slurm_queue.py",
           "key=lambda entry: number(entry.job), reverse=True", "key=lambda entry: number(entry.job)",
           "tests/sweep/test_slurm_jobs.py::test_the_first_job_of_a_run_owns_it"),
    Defect("a job that was answered and not gone gets its run again", "sweep/slurm.py",
           "self._over.add(number)", "pass", f"tests/sweep/test_slurm_jobs.py::{ANSWERED}"),
    Defect("FA from the summed loss", "rules/fa.py",
           "credit = [net.tap(gradient)]", "credit = [net.tap(gradient * len(gradient))]", HAND),
    Defect("FA's embedding taught like its first block", "rules/fa.py",
           'credit @ state["B.embed"].T if', "credit if", HAND),
    Defect("an old run of FA read as one of today", "config.py",
           "return config.with_(**{name: old", "return config.with_(**{name: layout.defaults[name]",
           "tests/test_config.py"),
    Defect("FA with the skip carried along", "rules/fa.py",
           'credit[0] @ state[f"B.{l}"].T', 'credit[0] + credit[0] @ state[f"B.{l}"].T', HAND),
    Defect("norm(-1): an L₋₁ norm of everything", "tensors.py",
           "torch.linalg.vector_norm(vectors.flatten(1), dim=1, dtype=torch.float64)",
           "vectors.flatten(1).double().norm(-1).expand(len(vectors))", "tests/test_tensors.py"),
    Defect("the library's cosine with its clamp", "tensors.py",
           "a, b = a.flatten(1).double(), b.flatten(1).double()",
           "return torch.nn.functional.cosine_similarity(a.flatten(1), b.flatten(1))", "tests/test_tensors.py"),
    Defect("an undefined cosine scored as zero", "tensors.py",
           "defined = values[~values.isnan()]", "defined = values.nan_to_num(0.0)", "tests/test_tensors.py"),
    Defect("gradients of the mean over the buffer", "rules/bp.py",
           'y, reduction="sum")', "y)", "tests/probes/test_gradients.py"),
    Defect("a swallowed seed", "rng.py",
           'f"faudit:{seed}:{name}"', 'f"faudit:{name}"', RULES),
    Defect("a tap that what follows writes into", "watch/net.py",
           "return seen[name].clone()", "return seen[name]", f"{FOREIGN}::{IN_PLACE}"),
    Defect("a moved state that never reaches the model", "watch/net.py",
           "lambda _: h.clone()", "lambda old: old", f"{FOREIGN}::{TRUE_CREDIT}"),
    Defect("a referee in the precision it judges", "watch/copies.py",
           "copied(model).double(), net.names", "copied(model), net.names", FOREIGN),
    Defect("a foreign model left in train mode", "watch/copies.py",
           "copy.deepcopy(model).eval()", "copy.deepcopy(model)", COPIES),
    Defect("the caller's own model measured", "watch/copies.py",
           "copy.deepcopy(model).eval()", "model.eval()", COPIES),
    Defect("a shadow that stays at the start", "watch/shadow.py",
           "            lend(theirs, self._tensors[copy])\n            follow", "            follow",
           f"{WATCH}::{SECOND}"),
    Defect("a watched model itself in another mode", "watch/shadow.py",
           "copy, modes = self.net.model, {", "copy, modes = self.source, {",
           f"{UNDISTURBED}::{SAME_BITS}[plain-stack]"),
    Defect("a comparison that shifts the generators", "watch/shadow.py",
           "stack.enter_context(same_randomness())", "pass", f"{UNDISTURBED}::{SAME_BITS}[plain-stack]"),
    Defect("gradients of a watched model under autocast", "watch/shadow.py",
           "stack.enter_context(torch.autocast(device, enabled=False))", "pass",
           f"{UNDISTURBED}::test_rows_inside_autocast_are_in_full_precision"),
    Defect("a comparison in eval mode", "watch/shadow.py",
           "module.training = modes.get(name, self.source.training)", "module.training = False",
           f"{COMPARE}::test_backprop_agrees_with_itself_in_training_mode_and_its_negative_does_not"),
    Defect("the summed loss compared", "watch/compare.py",
           "loss(logits_of(called(model, x)), y).mean()", "loss(logits_of(called(model, x)), y).sum()",
           f"{COMPARE}::{HANDMADE}"),
    Defect("products below float32 lost", "watch/compare.py",
           "if not all(ORDINARY[0]", "if False and not all(ORDINARY[0]",
           f"{COMPARE}::test_tiny_gradients_keep_their_direction"),
    Defect("signs of products that underflow", "watch/compare.py",
           "u.sign().mul_(g).sign_()", "(u * g).sign_()",
           f"{COMPARE}::test_the_sign_of_an_entry_counts_however_small_it_is"),
    Defect("the first chunk of a parameter for all of it", "watch/compare.py",
           "own.split(CHUNK), gradient.split(CHUNK)", "own.split(CHUNK)[:1], gradient.split(CHUNK)[:1]",
           f"{COMPARE}::test_a_parameter_of_many_chunks_is_one_vector"),
    Defect("an infinite update that ends the run", "watch/compare.py",
           "if not isfinite(own) or not isfinite(true):", "if False:",
           f"{COMPARE}::test_numbers_that_are_not_finite_are_one_warning_and_no_divergence"),
    Defect("an infinite input that passes as finite", "watch/batches.py",
           "bool(torch.isfinite(x.sum())) or bool(torch.isfinite(x).all())", "True",
           f"{NOT_MEASURED}"),
    Defect("a control whose blocks train", "watch/control.py",
           "value.copy_(began[name])\n\n    handle", "pass\n\n    handle", CONTROL),
    Defect("the credit of a block held against its input", "watch/blocks.py",
           "return self.blocks + 1", "return self.blocks", f"{WATCH}::{SECOND}"),
    Defect("the gradient judged where nothing is compared", "audit/checks/check.py",
           "return found[1:] if self.is_watched else found", "return found", f"{WATCH}::{AT_TAPS}"),
    Defect("any backward pass taken for the derivative", "watch/plain.py",
           "if is_close(shares[-1], 1.0):", "if True:", f"{NOT_MEASURED}::{OWN_BACKWARD}"),
    Defect("trust without what it covers", "audit/judge.py",
           "if covers and verdict == TRUSTWORTHY else verdict", "if False else verdict",
           "tests/watch/test_commands.py::test_audit"),
    Defect("a control that writes into the run", "watch/loop.py",
           "before, self._is_idle = self._is_idle, True", "before = self._is_idle", CONTROL),
    Defect("a null of shuffled samples", "watch/reading.py",
           "(scores @ frame(credit.shape[1], rank, generator).to(scores).T).to(credit)",
           "credit[torch.randperm(len(credit), generator=generator)]", f"{READING}::{AS_WIDE}"),
    Defect("weights unpickled", "watch/weights.py", "weights_only=True", "weights_only=False",
           "tests/watch/test_weights.py"),
    Defect("one generator for everything", "rng.py",
           'f"faudit:{seed}:{name}"', 'f"faudit:{seed}"', "tests/test_rng.py"),
    Defect("black padding after normalising", "data/batches.py",
           "(self.crop,) * 4)", "(self.crop,) * 4, value=127)", "tests/data/test_batches.py"),
    Defect("a copy that the host waits for", "tensors.py",
           "host.pin_memory().to(device, non_blocking=True)", "host.to(device)", f"{DEVICES}[dfa-resmlp]"),
    Defect("owners that are copied to the device at every step", "rules/local.py",
           "@cache  # numbers of Python reach a GPU by a copy that waits, and every step needs these\ndef places(",
           "def places(", f"{DEVICES}[dfa-resmlp]"),
    Defect("a counter that is read from the device", "rules/credit_bridge.py",
           'return name == "updates"', "return False", f"{DEVICES}[credit-bridge-resmlp]"),
    Defect("a step that amp does not reach", "experiment.py",
           'if self.config.amp == "none":', "if self.config.amp:", f"{ROUNDED}[dfa]"),
    Defect("random targets that disturb the order", "data/batches.py",
           'generator=generators["targets"]', "generator=draw", "tests/data/test_batches.py"),
    Defect("the optimizer's state not saved", "store/checkpoint.py",
           "if isinstance(held, Tensor):", "if False:", "tests/store/test_checkpoint.py"),
    Defect("the feedback not saved", "store/checkpoint.py",
           'named.update({f"rule/{name}": value for name, value in live.rule_state.items()})', "pass",
           "tests/store/test_checkpoint.py"),
    Defect("rows kept that the checkpoint does not know", "store/checkpoint.py",
           'run.keep_rows(until=header["epoch"])', "run.keep_rows(until=10**9)",
           "tests/test_resume.py::test_stopping_after_any_row_changes_nothing"),
    Defect("the learning-rate schedule never applied", "train.py",
           "live.optimizer.set_rates(lambda rate: learning_rate(experiment.config, epoch, rate))", "pass",
           "tests/test_recipe.py"),
    Defect("weight decay ignored", "experiment.py", "weight_decay=config.weight_decay", "weight_decay=0.0",
           "tests/test_recipe.py"),
    Defect("the rule's settings never passed", "experiment.py",
           'kind(**config.settings_of("rule"))', "kind()", "tests/test_recipe.py"),
    Defect("the net's settings never passed", "experiment.py",
           'return kind(sample_shape, outputs, **config.settings_of("net"))',
           "return kind(sample_shape, outputs)", "tests/test_recipe.py"),
    Defect("the optimizer's settings never passed", "experiment.py",
           "OPTIMIZERS[name](**settings)", "OPTIMIZERS[name]()", "tests/test_recipe.py"),
    Defect("the setting of pixels ignored", "experiment.py",
           "dataset = dataset.with_pixels(config.pixels)", "pass", "tests/test_recipe.py"),
    Defect("a milestone one epoch early", "train.py",
           "milestone < epoch for", "milestone <= epoch for", "tests/test_train.py::test_the_step_schedule_is_torchs"),
    Defect("the last, smaller batch counted like a full one", "train.py",
           "total += step.loss * len(x)", "total += step.loss * experiment.config.batch_size", "tests/test_recipe.py"),
    Defect("gradients of the step before applied again", "train.py",
           "tensors[name].grad = None  #", "pass  #", f"tests/test_train.py::{LEFT_OUT}"),
    Defect("a transposed gradient read as if it were not", "train.py",
           "gradient.contiguous()", "gradient", f"tests/test_train.py::{STRIDES}"),
    Defect("a smaller batch given to the compiled step", "rules/compiled.py",
           "if len(x) != self.samples:", "if False:",
           f"{COMPILED}::test_the_last_smaller_batch_is_eager_and_the_others_are_compiled"),
    Defect("a compiled step never held against the eager one", "rules/compiled.py",
           "if not agree(one, other):", "if False:", f"{COMPILED}::test_a_compiler_that_gets_it_wrong_is_not_used"),
    Defect("compiling writes running statistics", "rules/compiled.py",
           "value.detach().clone().requires", "value.detach().requires", f"{COMPILED}::{NOT_WRITTEN}"),
    Defect("an eager run that claims to be compiled", "experiment.py",
           '"compiled" if isinstance(self.step, CompiledStep) else "eager"', '"compiled"',
           f"{COMPILED}::test_without_a_compiler_a_run_is_trained_eagerly_and_says_so"),
    Defect("a step count left behind when other tensors step", "optimizers/fused.py",
           "or not holds(counts, states)", "", "tests/optimizers"),
    Defect("flips at another place than drawn", "data/batches.py",
           "+ len(x) * flips)", "+ len(x) * flips.roll(1))", "tests/data/test_batches.py"),
    Defect("the epoch left out of the checkpoint's checksum", "store/checkpoint.py",
           'total = zlib.crc32(f"{FORMAT} {epoch}{tied}".encode())', "total = 0", "tests/store/test_checkpoint.py"),
    Defect("a setting left out of the run's name", "config.py",
           "if value != self._layout.unsaid[name]}", 'if value != self._layout.unsaid[name] and name != "lr"}',
           "tests/test_config.py"),
    Defect("a setting of another member never refused", "experiment.py",
           "if problems := list(config.unused()):", "if problems := list[str]():", "tests/test_experiment.py"),
    Defect("exported gradients in our unit", "papers/faeval/export.py",
           'hidden, gradients = row["hidden_norms"], of_mean_loss(row["grad_norms"], n)',
           'hidden, gradients = row["hidden_norms"], list(row["grad_norms"])', f"{EXPORT}::{MEAN_LOSS}"),
    Defect("the floor read at the first tap", "papers/faeval/claims.py",
           'gradient = row["grad_norms"][-1]', 'gradient = row["grad_norms"][0]', "tests/papers/faeval/test_claims.py"),
    Defect("gradients compared in another unit than the paper's", "papers/faeval/claims.py",
           'last(at("grad_norms", tap), 1 / BUFFER)', 'last(at("grad_norms", tap))',
           "tests/papers/faeval/test_claims.py"),
    Defect("a claim with a part that was not run called reproduced", "papers/claim.py",
           'VERDICTS = ("deviates", "not run",', 'VERDICTS = ("reproduced", "deviates", "not run",',
           "tests/papers/faeval/test_claims.py"),
    Defect("a claim with fewer seeds than it asks called reproduced", "papers/claim.py",
           "if all(ended.values()) and not enough and", "if all(ended.values()) and not ended and", KINDS),
    Defect("a claim with fewer epochs than it asks called reproduced", "papers/claim.py",
           "one.config.epochs >= epochs[name]", "one.config.epochs >= 0", KINDS),
    Defect("a tie taken for an order", "papers/claim.py", '"<": operator.lt', '"<": operator.le', KINDS),
    Defect("a difference without its baseline", "papers/claim.py", "number - baseline[seed]", "number", KINDS),
    Defect("a buffer taken for the test set", "papers/claim.py", "buffer == samples else", "samples else", KINDS),
    Defect("block 0 counted among the deep ones", "figures/figure.py",
           "values = row.numbers(entry)[1:]", "values = row.numbers(entry)", f"{FIGURES}::{DEEP}"),
    Defect("epochs may come twice", "store/rows.py", "map(operator.ge, epochs", "map(operator.gt, epochs", ROWS),
    Defect("a whole number of any size is read", "store/rows.py", "max(whole) > EXACT or ", "", ROWS),
    Defect("a truth value is read as a number", "store/rows.py",
           "{float, int, NONE, str}", "{float, int, bool, NONE, str}", ROWS),
    Defect("the rows before decide nothing about the depth", "store/rows.py",
           "checked(rows[-2:])", "checked(rows[-1:])", ROWS),
    Defect("a list of any length is read", "store/rows.py",
           "or not all(entry.fits(length, blocks) for length in set(map(len, column)))", "", ROWS),
    Defect("a probe is left out without a word", "watch/model.py",
           "left_out[name] = WHY_NOT[lacking[0]]", "pass", f"{FOREIGN}::{REASONS}"),
    Defect("an arithmetic mean on a logarithmic axis", "figures/figure.py",
           "met.setdefault(row[\"epoch\"], []).append(math.log10(number) if log else number)",
           "met.setdefault(row[\"epoch\"], []).append(number)", f"{FIGURES}::{GEOMETRIC}"),
    Defect("a run of any length taken for the one asked for", "figures/table.py",
           "return epochs == wanted or (shortened and epochs < wanted)",
           "return True",
           f"{FIGURES}::{SHORTER}"),
    Defect("norm(-1) of the hidden states", "probes/norms.py",
           "median(norms(h)) for h in reading.taps", "float(h.norm(-1)) for h in reading.taps",
           f"{PITFALLS}::{PER_SAMPLE}"),
    Defect("norm(-1) of the gradients", "probes/gradients.py",
           "norms(gradient) for gradient in", "gradient.norm(-1).expand(len(gradient)) for gradient in",
           f"{PITFALLS}::{PER_SAMPLE}"),
    Defect("a clamp of 1e-8 under a cosine", "tensors.py",
           "b = b / torch.linalg.vector_norm(b, dim=1, keepdim=True)",
           "b = b / torch.linalg.vector_norm(b, dim=1, keepdim=True).clamp(min=1e-8)", f"{PITFALLS}::{NOT_CLAMPED}"),
    Defect("gradients through float16", "rules/bp.py",
           "return trace, list(gradients)", "return trace, [g.half().to(g.dtype) for g in gradients]",
           f"{PITFALLS}::{HALF}"),
    Defect("feedback drawn again by the audit", "audit/measure.py",
           "Reading(net, rule, params, state,", "Reading(net, rule, params, feedback,",
           f"{PITFALLS}::{OTHER_FEEDBACK}"),
    Defect("feedback that was not saved drawn again", "audit/measure.py",
           "checkpoint.must_match(run.checkpoint, wanted, came)",
           "came.update({name: value for name, value in wanted.items() if name not in came})",
           f"{PITFALLS}::{LACKING}"),
    Defect("missing feedback replaced by the forward weight", "rules/dfa.py",
           'error @ state[f"B.{l}"].T',
           'error @ state.get(f"B.{l}", params["readout.head.weight"].T).T', f"{PITFALLS}::{NEVER_SCORES}"),
    Defect("missing feedback replaced by the gradient as it is", "rules/fa.py",
           'credit[0] @ state[f"B.{l}"].T',
           '(credit[0] @ state[f"B.{l}"].T if f"B.{l}" in state else credit[0])', f"{PITFALLS}::{NEVER_SCORES}"),
    Defect("Γ of the whole buffer as one vector", "probes/alignment.py",
           "cosines(credit, gradient)",
           "cosines(credit.flatten()[None], gradient.flatten()[None]).expand(len(credit))",
           f"{PITFALLS}::{OWN_COSINE}"),
    Defect("the headline Γ without block 0", "papers/faeval/export.py",
           "sum(gamma) / len(gamma)", "sum(gamma[1:]) / len(gamma[1:])", f"{PITFALLS}::{ONE_ROW}"),
    Defect("an end counted among the interior", "probes/distribution.py",
           "fmean(interior) if interior and len(interior) == len(means) - 2 else None",
           "fmean(means[1:])", f"{PITFALLS}::{ONE_ROW}"),
    Defect("block 0 counted in the null", "audit/checks/null.py",
           '["gamma"]) == 1 else 1', '["gamma"]) == 1 else 0', f"{PITFALLS}::{BLOCK_0}"),
    Defect("NaN taken for a pass", "audit/checks/check.py",
           "return PASSED if value >= limit else FIRED", "return FIRED if value < limit else PASSED",
           f"tests/audit/test_audit.py::{FIRES}"),
    Defect("the first tap of a foreign model never judged", "audit/checks/null.py",
           "return 0 if not case.knows_rule or len", "return 0 if len", f"tests/audit/test_audit.py::{FIRST_TAP}"),
    Defect("the swapped update is the own one", "probes/swap.py",
           'reading.fresh_state("swap")', "reading.state", "tests/probes/test_swap.py"),
    Defect("pairings of samples as if each were drawn alone", "probes/samples.py",
           "- means[:, None] - by_column + mean", "- mean", "tests/probes/test_samples.py"),
    Defect("the best deep block asked instead of the worst", "audit/checks/blocks.py",
           "value, block = min(", "value, block = max(", "tests/audit/test_faudit_3.py"),
    Defect("the readout counted as taught through feedback", "audit/checks/swap.py",
           "for cosine in below if", "for cosine in row[\"swap_cosines\"] if", "tests/audit/test_faudit_3.py"),
    Defect("feedback that a planted rule learns is not trained", "bench/protocol/faults.py",
           "value.requires_grad_(rule.trains_state(name))", "pass",
           "tests/bench/protocol/test_wrong_rules.py::test_a_planted_rule_keeps_the_settings_of_its_configuration_and_"
           "its_feedback_is_trained"),
    Defect("the plant after training is forgotten", "bench/protocol/networks.py",
           "experiment = CASES[task.case].ended(experiment)", "pass",
           "tests/bench/protocol/test_networks.py::test_what_is_planted_after_training_is_in_the_row"),
    Defect("another turn at every tap, though taps may share feedback", "watch/reading.py",
           'self.generator(f"turn.{draw}")', "torch.Generator().manual_seed(id(credit) + draw)",
           f"{READING}::{SHARED}"),
    Defect("a missing control taken for a pass", "audit/checks/depth.py",
           "return check.finding(NOT_MEASURED, why_none(case), threshold=threshold)",
           "return check.finding(PASSED, why_none(case), threshold=threshold)",
           f"tests/audit/test_audit.py::{NEVER_A_PASS}"),
    Defect("a missing entry taken for one that is there", "audit/checks/check.py",
           "return any(row.get(name) is None for name in self.reads)", "return False", MISSING_ENTRY),
    Defect("chance asked of the estimate alone", "audit/checks/chance.py",
           "PASSED if low > chance else FIRED", "PASSED if case.accuracy > chance else FIRED",
           f"{CHECKS}::{BY_WILSON}"),
    Defect("an accuracy given by hand passed off as measured", "watch/model.py",
           "accuracy, by_hand=True)", "accuracy)", f"{CHECKS}::{GIVEN}"),
    Defect("a control that applies the block gradients of a rule with a step of its own", "rules/frozen.py",
           "if name in state or self.trains(name)}", "}", f"{FROZEN}::{OWN_STEP}"),
    Defect("a control that does not say that its blocks are frozen", "rules/frozen.py",
           "trains_blocks: ClassVar[bool] = first is not None", "trains_blocks: ClassVar[bool] = True",
           f"{FROZEN}::{SAYS_FROZEN}"),
    Defect("two gradients of nothing said to disagree", "probes/precision.py",
           "cosines(own, true)[open_ones & ~none]", "cosines(own, true)[open_ones]", f"{EDGES}::{NO_VALUE}"),
    Defect("ρ with the study's step, in the net's own precision", "probes/perturbation.py",
           "true, rough = central_changes(reading, tap), study_changes(reading, tap)",
           "true = rough = study_changes(reading, tap)", f"{BY_HAND}[perturbation-exploded-dfa]"),
    Defect("a sample without credit scored as unmoved", "probes/nudging.py",
           "torch.where(norms(signal) > 0, change, torch.nan)", "change.nan_to_num(0.0)",
           f"{BY_HAND}[nudging-no gradient-fa]"),
    Defect("fitted samples counted in Γ", "probes/alignment.py",
           "cosines(credit, gradient)[~reading.fitted]", "cosines(credit, gradient)", f"{FITTED}::{OPEN_ONES}"),
    Defect("fitted samples counted in the null of Γ", "probes/perturbation.py",
           "mean_defined(cosines(draw, gradient)[is_open])", "mean_defined(cosines(draw, gradient))",
           f"{FITTED}::{PARTLY}[perturbation-dfa]"),
    Defect("fitted samples counted in ρ", "probes/perturbation.py",
           "mean_defined(row[is_open])", "mean_defined(row)", f"{FITTED}::{PARTLY}[perturbation-dfa]"),
    Defect("fitted samples counted in nudging", "probes/nudging.py",
           "change, torch.nan)[~reading.fitted]", "change, torch.nan)", f"{FITTED}::{PARTLY}[nudging-dfa]"),
    Defect("the limit of float64 for a network in float32", "probes/probe.py",
           "torch.finfo(self.trace.logits.dtype).eps", "torch.finfo(torch.float64).eps", f"{FITTED}::{OWN_TYPE}"),
    Defect("the output error rounded before it is judged", "probes/probe.py",
           "output_error(self.trace.logits.double(), self.y)", "output_error(self.trace.logits.half(), self.y)",
           f"{FITTED}::{HUNDRED}"),
    Defect("a NaN taken for a small error", "probes/probe.py",
           "norms(self.errors_in_double", "norms(self.errors_in_double.nan_to_num(0.0)", f"{FITTED}::{NOT_A_NUMBER}"),
    Defect("a batch of one called one direction", "probes/rank.py",
           "if n < 2:\n        return None", "if n < 2:\n        return 1.0", f"{BY_HAND}[rank-single-dfa]"),
    Defect("a clamp under the ratio of two updates", "probes/update.py",
           "size / reference if size and reference else None", "size / max(reference, 1e-8)",
           f"{BY_HAND}[update-no gradient-dfa]"),
    Defect("the normal's quantile for a few seeds", "stats.py",
           "half = student_quantile(len(values) - 1) *", "half = NORMAL *", STATS),
    Defect("a degree of freedom too many", "stats.py",
           "student_quantile(len(values) - 1)", "student_quantile(len(values))", STATS),
    Defect("an interval of a share that leaves [0, 1]", "stats.py",
           "return max(0.0, middle - half), min(1.0, middle + half)", "return middle - 2 * half, middle + 2 * half",
           STATS),
    Defect("a paired test with a degree of freedom too many", "analysis/compare.py",
           "student_p(self.t, self.n - 1)", "student_p(self.t, self.n)", PAIRED),
    Defect("a one-sided exact test", "stats.py",
           "flipped = (abs(fsum(", "flipped = ((fsum(", PAIRED),
    Defect("seeds counted as further samples", "analysis/samples.py",
           "for y in pairs", "for y in [x] * n", BY_SAMPLE),
    Defect("a sample that both get wrong counted as a difference", "analysis/samples.py",
           "(self.b & ~self.a).bit_count()", "self.b.bit_count()", BY_SAMPLE),
    Defect("a one-sided test of McNemar", "stats.py",
           "min(1.0, 2 * total / (1 << both))", "min(1.0, total / (1 << both))", BY_SAMPLE),
    Defect("networks compared on other test samples", "analysis/samples.py",
           "elif tested_on[0] != tested_on[1]:", "elif not tested_on:", BY_SAMPLE),
    Defect("a setting that no run of a study reads", "sweep/study.py",
           "for name in shared if not any(name in reads for reads in read)]", "for name in shared if not read]",
           "tests/sweep/test_study.py"),
    Defect("a setting that no run of an include reads", "sweep/study.py",
           "in part.typed.items() if name not in reads]", "in part.typed.items() if not reads]",
           "tests/sweep/test_study.py"),
    Defect("epoch 0's accuracy for an unfinished run", "store/summary.py",
           'if last.get("epoch") else None', "if rows else None", UNFINISHED),
    Defect("a run without a setting fails !=", "store/where.py",
           '(value in self.values) is (self.comparison == "=")',
           'value is not None and (value in self.values) is (self.comparison == "=")', WHERE),
    Defect("prediction and similarity swap their shares", "rules/local_loss.py",
           "(1.0 - beta) * net.loss", "beta * net.loss", LOCAL_LOSS),
    Defect("similarities that are not centred", "rules/local_loss.py",
           "centred = z - z.mean(dim=1, keepdim=True)", "centred = z", LOCAL_LOSS),
    Defect("auxiliary weights that are never trained", "rules/local_loss.py",
           "def trains_state(self, name: str) -> bool:\n        return True",
           "def trains_state(self, name: str) -> bool:\n        return False", LOCAL_LOSS),
    Defect("a block judged after dropout", "rules/local_loss.py",
           "if (whole := net.undropped()) is not net:", "if (whole := net.undropped()) is None:", LOCAL_LOSS),
    Defect("a placebo that is plain DFA", "rules/placebo.py",
           "normalised(a, eps), normalised(b, eps), w", "a, b, w", PLACEBO),
    Defect("a paired interval that forgets who differs", "audit/checks/paired.py",
           "(ours ^ frozen).bit_count() + 1.0", "1.0", "tests/audit/test_paired.py"),
    Defect("gradients of one tensor scaled twice", "rules/local.py",
           "if are_apart(tensors):", "if tensors:", "tests/rules/test_clip.py"),
    Defect("the loss of a block read at its input", "rules/local_loss.py",
           "tap, judged = (t + 1, net.join(h, net.branch(params, t, h)))", "tap, judged = (t + 1, h)", LOCAL_LOSS),
    Defect("PEPITA with the difference turned round", "rules/pepita.py",
           "first.taps[l + 1] - h.detach()", "h.detach() - first.taps[l + 1]", PEPITA),
    Defect("PEPITA with the activity of the first pass", "rules/pepita.py",
           "h = h.detach()\n", "h = first.taps[l]\n", PEPITA),
    Defect("PEPITA with the derivative of the activation", "rules/pepita.py",
           "h = net.join(h, branch)\n", "h = net.join(h, branch)\n            outputs = [branch]\n", PEPITA),
    Defect("another dropout mask in the second pass", "nets/net.py",
           "if place not in self._masks:", "if True:", PEPITA),
    Defect("wrong labels that are sometimes right", "rules/forward_forward.py",
           "torch.randint(1, classes,", "torch.randint(0, classes,", FORWARD),
    Defect("the length of the activity passed on", "rules/forward_forward.py",
           "a = unit(found[-1].detach())", "a = found[-1].detach()", FORWARD),
    Defect("a prediction that sees what is written in place of the label", "rules/forward_forward.py",
           "judged(activities(net, params, labelled(x, neutral)))", "judged(activities(net, params, x.flatten(1)))",
           FORWARD),
    Defect("running means that stay as they are", "rules/forward_forward.py",
           "return step.means if", "return {} if", FORWARD),
    Defect("silent units that peer normalisation cannot wake", "rules/forward_forward.py",
           "found.append(z + (F.relu(z) - z).detach())", "found.append(F.relu(z))", FORWARD),
    Defect("a BatchNorm that follows every pass of a step", "nets/net.py",
           "if training.is_first(name):", "if training is not None:", f"{NETS}::{ONCE}"),
    Defect("a BatchNorm that evaluates by the batch", "nets/net.py",
           "return F.batch_norm(h, mean, var, weight, bias)",
           "return F.batch_norm(h, None, None, weight, bias, training=True)", "tests/nets/test_mlp.py"),
    Defect("other masks in the second pass of a step", "nets/net.py",
           "if place not in self._masks:", "if place:", f"{NETS}::{ONCE}"),
    Defect("dropout that keeps no mean", "nets/net.py",
           "to(h.dtype) / (1.0 - rate)", "to(h.dtype)", "tests/nets/test_mlp.py"),
    Defect("a mean over the classes in the BCE", "nets/mlp.py",
           'reduction="none").sum(dim=1)', 'reduction="none").mean(dim=1)', "tests/nets/test_mlp.py"),
    Defect("the error of a softmax under sigmoids", "nets/mlp.py",
           "torch.sigmoid(logits) if", "torch.softmax(logits, dim=1) if", NETS),
    Defect("the shortcut of a stage from before the norm", "nets/resnet.py",
           'f + F.conv2d(z, params[f"{name}.skip.weight"]', 'f + F.conv2d(h, params[f"{name}.skip.weight"]',
           "tests/nets/test_resnet.py"),
    Defect("running statistics that a rule trains", "rules/rule.py",
           "return not is_buffer(name)", "return True", RULES),
    Defect("vectors taken for classes", "probes/probe.py",
           '"classes": not self.y.is_floating_point()', '"classes": True', NO_ACCURACY),
    Defect("the error of vectors relative to zero and not to their mean", "train.py",
           "(targets - targets.mean(dim=0)).square()", "targets.square()",
           f"{VECTORS}::test_three_hundred_online_steps_are_the_formulas_of_the_paper_and_turn_w_towards_b"),
    Defect("vectors given to a rule that needs classes", "experiment.py",
           "if rule.no_vectors is not None:", "if rule.no_vectors == config.rule:",
           f"{VECTORS}::test_what_needs_classes_is_refused_in_one_line"),
    Defect("vectors compared by an accuracy that does not exist", "audit/checks/depth.py",
           "if not case.classes:", "if case.classes < 0:", NO_ACCURACY),
    Defect("a last batch of one under a BatchNorm", "experiment.py",
           "if smallest < net.least_batch:", "if config.batch_size < net.least_batch:", "tests/test_experiment.py"),
    Defect("a weight that sends its error back itself", "rules/backward.py",
           "Linear.apply(input, weight.forward, weight.feedback, bias)",
           "Linear.apply(input, weight.forward, weight.forward, bias)", f"{SILENT_BP}[fa-weights-resmlp]"),
    Defect("a kernel that sends its error back itself", "rules/backward.py",
           "Conv2d.apply(input, weight.forward, weight.feedback, bias, shape)",
           "Conv2d.apply(input, weight.forward, weight.forward, bias, shape)", f"{BACKWARD}::{BY_LOOPS}[1]"),
    Defect("the bias taught by a mean", "rules/backward.py",
           "rows.sum(0) if of_bias", "rows.mean(0) if of_bias",
           f"{BACKWARD}::test_the_step_equals_the_derivative_by_hand[resmlp-fa-weights-]"),
    Defect("the true gradient called the credit of FA", "rules/backward.py",
           "tap_gradients(net, through, taps[0], y)", "tap_gradients(net, params, taps[0], y)",
           f"{BACKWARD}::{OWN_LOSS}[resmlp-fa-weights]"),
    Defect("feedback for the layer that reads the data", "rules/backward.py",
           "if args[0].requires_grad:", "if True:",
           f"{BACKWARD}::test_every_weight_has_feedback_of_its_shape_but_those_that_read_the_data[resmlp-fa-weights]"),
    Defect("a null that knows the signs", "rules/sign_symmetry.py",
           "name: value * random_signs(value, generator)", "name: value",
           f"{SIGNS}::test_under_the_null_the_signs_are_random_and_the_sizes_are_not[frsf]"),
    Defect("magnitudes that are never drawn again", "rules/sign_symmetry.py",
           'if self.variant != "brsf":', 'if self.variant != "frsf":',
           f"{SIGNS}::test_magnitudes_are_constant_fixed_or_drawn_after_every_update"),
    Defect("feedback that descends against its weight", "rules/kolen_pollack.py",
           "name: step.grads[weight_of(name)]", "name: -step.grads[weight_of(name)]",
           f"{KP}::test_without_decay_the_difference_of_weight_and_feedback_is_constant[sgd]"),
    Defect("feedback of frozen blocks that learns", "rules/kolen_pollack.py",
           "return self.trains(weight_of(name))", "return True",
           f"{KP}::test_the_feedback_of_frozen_blocks_stays_and_that_of_the_readout_learns"),
    Defect("noise with a mean", "rules/weight_mirror.py", "(sent(noise, weight.device) - 0.5)", "noise",
           f"{MIRROR}::test_the_expected_sum_of_a_phase_is_the_weight_times_the_power_of_the_noise"),
    Defect("a mirror that forgets nothing", "rules/weight_mirror.py",
           "(1.0 - self.mirror_decay) * value", "value", f"{MIRROR}::test_one_phase_by_hand_in_numpy"),
    Defect("the phases of the start at every step", "rules/weight_mirror.py",
           "MIRRORED in state and not bool(state[MIRRORED])", "MIRRORED in state",
           f"{MIRROR}::test_the_phases_at_the_start_happen_once[5]"),
    Defect("EP without the embedding's term", "rules/ep.py",
           "total = square(states[0] - first)\n", "total = 0.0 * square(states[0] - first)\n",
           f"{EP}::test_on_a_linear_net_the_update_is_that_of_the_closed_form"),
    Defect("an update that is not divided by β", "rules/ep.py",
           "Objective(total / (self.beta * len(x))", "Objective(total / len(x)",
           f"{EP}::test_on_a_linear_net_the_update_is_that_of_the_closed_form"),
    Defect("credit towards a larger loss", "rules/ep.py",
           "net.tap(free[l] - moved[l])", "net.tap(moved[l] - free[l])",
           f"{EP}::test_the_credit_is_minus_the_shift_of_the_taps_over_beta"),
    Defect("a relaxation that may rise as long as it is finite", "rules/ep.py",
           "isfinite(total) and total <= RISEN * (self.beta * loss + rounding)", "isfinite(total)",
           f"{EP}::test_a_relaxation_that_diverges_ends_the_run_with_its_phase[float64]"),
    Defect("an own loss that trains the head", "rules/credit_bridge.py",
           "fixed = {name: weight.detach() for name, weight in params.items()}\n        (true,) = torch.autograd.grad("
           'net.loss(net.readout(fixed, end), y, reduction="sum"), end)',
           "(true,) = torch.autograd.grad("
           'net.loss(net.readout(params, end), y, reduction="sum"), end, create_graph=True)',
           f"{AUXILIARY}::test_no_gradient_of_the_own_loss_reaches_the_main_net"),
    Defect("a soft maximum", "rules/credit_bridge.py",
           "torch.logsumexp(-values / self.temperature, dim=0)", "-torch.logsumexp(values / self.temperature, dim=0)",
           f"{BRIDGE}::test_the_target_is_the_soft_minimum_of_the_slow_copy_by_hand"),
    Defect("a slow copy that is fast", "rules/credit_bridge.py",
           "torch.lerp(state[name], state[slow_name(name)], self.ema)",
           "torch.lerp(state[slow_name(name)], state[name], self.ema)",
           f"{BRIDGE}::test_the_slow_copy_follows_by_hand_and_updates_are_counted"),
    Defect("a warm-up that never ends", "rules/credit_bridge.py",
           '"updates": state["updates"] + 1', '"updates": state["updates"]',
           f"{BRIDGE}::test_the_slow_copy_follows_by_hand_and_updates_are_counted"),
    Defect("a placebo that reads the loss", "rules/placebo.py",
           "(self.value(net, state, tap, net.tap(whole)) - sent(noise, whole.device))",
           '(self.value(net, state, tap, net.tap(whole)) - net.loss(trace.logits.detach(), y, reduction="none"))',
           f"{PLACEBO}::test_the_share_of_the_auxiliary_net_does_not_depend_on_labels_or_logits[resmlp]"),
    Defect("a bridge that predicts the state before the last", "rules/state_bridge.py",
           "net.tap(trace.taps[-1])", "net.tap(trace.taps[-2])",
           f"{STATE}::test_the_own_loss_is_the_normalised_squared_error_by_hand[resmlp]"),
    Defect("a layer inside a block not cut from the one before", "rules/direct.py",
           "with_input(func, layer[0].detach(), args, kwargs)", "with_input(func, layer[0], args, kwargs)", LAYERS),
    Defect("direct feedback without the mean over the batch", "rules/direct.py",
           "self.target(net, trace.logits.detach(), y) / len(x)", "self.target(net, trace.logits.detach(), y)", LAYERS),
    Defect("a signal inside a block that never enters", "rules/direct.py",
           "if name in signals:", 'if name in signals and not name.endswith("weight"):', LAYERS),
    Defect("the rows of shared feedback in the order of the positions", "rules/direct.py",
           "feedback.repeat_interleave(shape[1] * shape[2], dim=0)", "feedback.repeat(shape[1] * shape[2], 1)", LAYERS),
    Defect("tiled feedback as if the map had no border", "rules/direct.py",
           "padding=KERNEL // 2)", "padding=KERNEL // 2) * 0 + feedback.sum((2, 3)).view(1, -1, 1, 1)", LAYERS),
    Defect("the size of the error in sDFA", "rules/sdfa.py",
           "net.output_error(logits, y).sign()", "net.output_error(logits, y)", "tests/rules/test_sdfa.py"),
    Defect("an error in DRTP", "rules/drtp.py",
           "return one_hot(y, logits)", "return -net.output_error(logits, y)", "tests/rules/test_drtp.py"),
    Defect("learned feedback that never learns", "rules/dkp.py",
           'owner == "0" or (', 'owner == "none" and (', "tests/rules/test_dkp.py"),
    Defect("a control whose blocks' feedback learns", "rules/dkp.py",
           "self.trains_blocks if owner.isdigit()", "True if owner.isdigit()", "tests/rules/test_dkp.py"),
    Defect("the source of an own member left out of the run id", "config.py",
           'sources = {f"source:{family}": one.source for', 'sources = {f"source:{family}": "" for',
           f"{OWN}::test_the_run_id_covers_the_full_name_and_the_source"),
    Defect("changed source of an own member not noticed", "config.py",
           ".digest(one.name)) != one.source:", ".digest(one.name)) == one.name:", f"{OWN}::{OTHER_SOURCE}"),
    Defect("the current directory searched first", "registry.py",
           "sys.path.append(directory)", "sys.path.insert(0, directory)",
           f"{OWN}::test_a_file_of_the_current_directory_never_stands_for_an_installed_module"),
    Defect("running statistics given out as they began", "watch/trained.py",
           "home.register_buffer(last, value.detach().clone())", "home.register_buffer(last, torch.zeros_like(value))",
           f"{TRAINED}::test_its_logits_are_the_nets_and_its_accuracy_the_runs"),
    Defect("a setting of another member passes at its default", "config.py",
           "if attribute(name) not in config.settings]", "if attribute(name) in config.stray]",
           "tests/integrity/test_bad_rules.py::test_what_cannot_work_is_one_line_and_writes_nothing"),
    Defect("two methods that look alike", "report/looks.py",
           "if dash not in used]", "if True]", f"{SEEN}::test_no_two_methods_look_alike"),
    Defect("text of a run that ends its element", "report/page.py",
           '.replace("<", "\\\\u003c")', "", f"{PAGE}::test_text_of_a_run_cannot_end_its_element"),
    Defect("three digits on the page", "report/series.py",
           "DIGITS = 6", "DIGITS = 3", f"{SEEN}::test_every_number_of_every_row_is_on_the_page"),
    Defect("a deep mean that counts the first block", "report/runs.py",
           "list(values or [])[1:] or", "list(values or []) or",
           f"{SEEN}::test_the_null_is_that_of_the_deep_mean_over_whole_draws"),
    Defect("a verdict that does not see its control", "report/collection.py",
           "*(mark for control in beside for mark in self._seen[control.name])", "",
           f"{SEEN}::test_a_control_that_ends_changes_the_verdict_of_its_run"),
    Defect("rows appended to those of another file", "report/growing.py",
           "if lines[:1] == [before.last]:", "if True:", f"{SEEN}::test_rows_that_were_written_anew_are_read_anew"),
    Defect("only the newest row sent to a client that lacks several", "report/collection.py",
           "if when <= look), None)", "if when < self.looks), None)",
           "tests/report/test_server.py::test_answers_on_top_of_each_other_are_the_whole_state"),
    Defect("a server for any host name", "report/server.py",
           "name in self.server.names", "True", "tests/report/test_server.py::test_a_foreign_name_is_refused"),
    Defect("a roofline without the gradients of inputs", "bench/roofline.py",
           "[forward, weight, Product(rows, outputs, inputs)] if input_gradient", "[forward, weight] if input_gradient",
           "tests/bench/test_roofline.py::test_the_operations_are_those_that_torch_counts_in_the_step"),
    Defect("the first candidate always goes first", "bench/timing.py",
           "if place % 2 == 0 else reversed(list(works))", "",
           "tests/bench/test_timing.py::test_works_alternate_and_every_other_round_goes_backwards"),
    Defect("a ratio of sums instead of rounds", "bench/timing.py",
           "(one / other for one, other in zip(these, those, strict=True))", "[sum(these) / sum(those)]",
           "tests/bench/test_timing.py::test_a_ratio_is_taken_within_a_round"),
    Defect("a product that no step needs", "rules/bp.py",
           "loss = net.loss(trace.logits, y)", "loss = net.loss(net.readout(params, trace.taps[-1]), y)",
           "tests/bench/test_roofline.py::test_the_operations_are_those_that_torch_counts_in_the_step"),
]  # fmt: skip


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A copy of package and tests, with a folder for compiled modules beside every module."""
    for folder in ("src", "tests"):
        shutil.copytree(ROOT / folder, tmp_path / "base" / folder, ignore=shutil.ignore_patterns("__pycache__"))
        top = tmp_path / "base" / folder
        for inner in [top, *(path for path in top.rglob("*") if path.is_dir())]:
            (inner / "__pycache__").mkdir()
    return tmp_path / "base"


def spoiled_copy(defect: Defect, base: Path, root: Path, number: int) -> None:
    """A copy of links to the files of another, with one line spoiled.

    The copies share what is compiled. Python knows a compiled file by time and size of its source, so the spoiled file
    gets a time that no other has.
    """
    shutil.copytree(base, root, copy_function=os.link, ignore=shutil.ignore_patterns("__pycache__"))
    for folder in base.rglob("__pycache__"):
        (root / folder.relative_to(base)).symlink_to(folder)
    file = root / "src" / "faudit" / defect.file
    text = file.read_text()
    assert text.count(defect.old) == 1, f"the line to spoil is not there once: {defect.old}"
    file.unlink()
    file.write_text(text.replace(defect.old, defect.new))
    os.utime(file, (number, number))


def answers(jobs: list[tuple[Path, str]], folder: Path) -> list[dict[str, Any]]:
    """What pytest says of each copy and its tests: the exit code and the closing lines."""
    asked = [{"root": str(root), "tests": tests, "answer": str(folder / f"answer-{number}.json")}
             for number, (root, tests) in enumerate(jobs)]  # fmt: skip
    (folder / "jobs.json").write_text(json.dumps(asked))
    command = [sys.executable, str(ROOT / "tests" / "support" / "mutator.py"), str(folder / "jobs.json")]
    subprocess.run(command, check=True, cwd=folder)
    return [json.loads(Path(job["answer"]).read_text()) for job in asked]


@pytest.mark.slow
@pytest.mark.parametrize("half", [0, 1])
def test_every_planted_defect_is_caught(base: Path, tmp_path: Path, half: int) -> None:
    """In two halves, for two workers."""
    chosen = DEFECTS[half::2]
    for number, defect in enumerate(chosen):
        spoiled_copy(defect, base, tmp_path / str(number), number)
    found = answers([(tmp_path / str(number), defect.tests) for number, defect in enumerate(chosen)], tmp_path)
    missed = []
    for defect, answer in zip(chosen, found, strict=True):
        if not (answer["code"] == pytest.ExitCode.TESTS_FAILED and "1 failed" in answer["said"]):
            missed.append(f"{defect.name}\n{answer['said']}")
    assert not missed, "not caught: " + "\n".join(missed)


@pytest.mark.slow
def test_the_same_tests_pass_on_an_unspoiled_copy(base: Path, tmp_path: Path) -> None:
    """Else a defect would seem caught because a copy cannot run at all."""
    spoiled_copy(Defect("nothing", "rng.py", "NAMES = (", "NAMES = (", ""), base, tmp_path / "copy", 0)
    wanted = sorted({defect.tests for defect in DEFECTS})
    for tests, answer in zip(wanted, answers([(tmp_path / "copy", one) for one in wanted], tmp_path), strict=True):
        assert answer["code"] == 0, f"{tests}: {answer['said']}"
