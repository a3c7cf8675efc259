"""Train the same network with backprop and with DFA, and print what accuracy does not show.

Both start from the same weights and see the same batches. The runs are kept in ./runs. A second call only reads them.
"""

from faudit import RunConfig, fit
from faudit.store.rows import growth

for rule in ("bp", "dfa"):
    config = RunConfig(rule=rule, data="digits", epochs=30, batch_size=32, width=128, seed=42)
    run = fit(config, runs="runs")
    last = run.rows()[-1]
    print(f"{rule:>4}: test accuracy {last['test_acc']:.3f}")
    print(f"      size of the hidden state, tap by tap: {', '.join(f'{norm:.3g}' for norm in last['hidden_norms'])}")
    print(f"      largest growth of one block: {growth(last['hidden_norms']):.3g}×")
    print(f"      alignment with the true gradient, block by block: {', '.join(f'{g:+.2f}' for g in last['gamma'])}")
