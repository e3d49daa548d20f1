#!/bin/sh
wc -l < /etc/passwd > /app/lines.txt
