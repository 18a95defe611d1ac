//go:build mutant_sent_before_stored

package mutant

const planted = "sent_before_stored"
