//go:build mutant_goods_unasked

package mutant

const planted = "goods_unasked"
