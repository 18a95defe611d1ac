package authtest_test

import (
	"testing"

	"github.com/roamcard/roamcard/internal/auth"
	"github.com/roamcard/roamcard/internal/auth/authtest"
)

func TestMemoryStoresPassTheKit(t *testing.T) {
	authtest.RunStore(t, func(*testing.T) (auth.Challenges, auth.Sessions) {
		return new(authtest.Challenges), new(authtest.Sessions)
	})
}
