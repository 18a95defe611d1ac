//go:build mutant_classes_share_slots

package mutant

const planted = "classes_share_slots"
