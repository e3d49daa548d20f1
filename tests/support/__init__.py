"""What several tests share: runs by hand, suites, browsers, agents."""
