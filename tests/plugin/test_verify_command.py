"""``verify`` on what a run wrote."""

from __future__ import annotations

from fixtures.launcher.__main__ import main


def test_verify_names_the_verdict_of_a_good_certificate(project, capsys):
    project.checks().run()
    capsys.readouterr()
    assert main(["verify", str(project.path / "results/report.yaml")]) == 0
    assert capsys.readouterr().out.endswith("report.yaml: conformant (simulated)\n")
