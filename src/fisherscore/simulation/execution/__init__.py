"""Run records: here, in worker processes, on a Dask cluster; and keep what came of them in a ledger."""
