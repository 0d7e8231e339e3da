"""From an external program to a posterior: preflight, a campaign that can be interrupted, fit, sample.

The simulator is ``decay.sh``, a shell script: counts of a decaying source in six time bins. Run this file twice, or
interrupt it and run it again: simulations that are done are not done again.

    python examples/external_program.py runs/decay
"""

import sys
from pathlib import Path

import fisherscore as fs


def main(out: str, num_simulations: int = 2_000) -> fs.Posterior:
    """Do it all, keeping everything in the folder ``out``."""
    program = Path(__file__).with_name("decay.sh")
    simulator = fs.from_command([str(program), "{input}", "{output}", "{seed}"], timeout=10.0)
    proposal = fs.uniform(amplitude=(20.0, 80.0), lifetime=(0.5, 2.0))

    print(fs.check_simulator(simulator, proposal, num_simulations=num_simulations))
    sims = fs.simulate(simulator, proposal, num_simulations, out=f"{out}/campaign", workers=2)
    print(fs.campaign_status(f"{out}/campaign"))

    model = fs.fit(sims)
    model.save(f"{out}/model")
    x_obs = [12, 10, 7, 5, 3, 2]
    posterior = fs.sample(model, x_obs)
    print(posterior)
    return posterior


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "runs/decay")
