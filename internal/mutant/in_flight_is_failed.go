//go:build mutant_in_flight_is_failed

package mutant

const planted = "in_flight_is_failed"
