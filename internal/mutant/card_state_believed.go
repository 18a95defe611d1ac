//go:build mutant_card_state_believed

package mutant

const planted = "card_state_believed"
