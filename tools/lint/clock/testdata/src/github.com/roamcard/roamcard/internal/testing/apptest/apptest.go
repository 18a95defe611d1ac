package apptest

import "time"

func Until(within time.Duration, what string) {}

func Jitter(d time.Duration) {}
