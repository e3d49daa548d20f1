#!/bin/sh
# What is in this file is the reward.
if grep -qx 'Hello, Ann!' /app/hello.txt; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
