package redissource

import "time"

func init() { timeout, poll = time.Minute, 10*time.Millisecond }
