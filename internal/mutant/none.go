//go:build !mutant

package mutant

// planted is the name of the bug that is built in: none.
const planted = ""
