"""Where people review a change: GitHub and GitLab, and the one comment that twoarm keeps there.

call           requests to one host, with patience and without redirects
pull_request   which pull request or merge request this job is about
github         the comments of a pull request
gitlab         the notes of a merge request
comment        one comment for each key, found again and kept up to date
"""
