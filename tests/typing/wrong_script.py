"""What the type checker must object to; each line with a mistake names the errors it must get. Not run."""

import fisherscore as fs

proposal: fs.Proposal = fs.uniform(a=(0.0, 1.0))
simulations: fs.Simulations = fs.simulate("my simulator", proposal, 100)  # expect: arg-type
posterior: fs.Forecast = fs.sample(1, [0.0], no_such_option=2)  # expect: arg-type, assignment, call-arg
