package limit

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Parse reads rates: "default", "off", or changes to the defaults separated by commas. A change is xN,
// which multiplies all of them, or a class with its rate, as in "reveal=10/1h", "in_flight=4" or "poll=off".
func Parse(text string) (Rates, error) {
	switch text {
	case "off":
		return Rates{}, nil
	case "default":
		return Defaults(), nil
	}
	rates := Defaults()
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		if times, ok := strings.CutPrefix(part, "x"); ok {
			n, err := strconv.Atoi(times)
			if err != nil || n < 1 || n > 1_000_000 {
				return nil, fmt.Errorf("%q is no multiple like x20", part)
			}
			for class, rate := range rates {
				rates[class] = Rate{rate.Count * n, rate.Per}
			}
			continue
		}
		name, value, ok := strings.Cut(part, "=")
		preset, known := Defaults()[Class(name)]
		if !ok || !known {
			return nil, fmt.Errorf("%q is no class of requests with its rate", part)
		}
		rate, err := parseRate(value, preset.Per == 0)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		rates[Class(name)] = rate
	}
	return rates, nil
}

func parseRate(text string, timeless bool) (Rate, error) {
	if text == "off" {
		return Rate{}, nil
	}
	count, per, timed := strings.Cut(text, "/")
	n, err := strconv.Atoi(count)
	if err != nil || n < 1 || timed == timeless {
		return Rate{}, fmt.Errorf("%q is no rate like 10/1m", text)
	}
	if timeless {
		return Rate{Count: n}, nil
	}
	d, err := time.ParseDuration(per)
	if err != nil || d < time.Duration(n) || d > 24*time.Hour {
		return Rate{}, fmt.Errorf("%q is no rate like 10/1m", text)
	}
	return Rate{n, d}, nil
}
