package redissource

import "time"

func init() { timeout = time.Minute }
