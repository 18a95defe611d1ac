//go:build mutant_authorization_not_unique

package mutant

const planted = "authorization_not_unique"
