"""The audit: a check turns numbers into a finding, a protocol is a set of checks, the judge gives the verdict."""
