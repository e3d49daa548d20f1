#!/bin/sh
# What is in this file is the reward.
if test "$(cat /app/lines.txt)" -eq "$(wc -l < /etc/passwd)"; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
