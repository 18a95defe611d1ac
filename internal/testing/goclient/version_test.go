package goclient_test

import (
	"testing"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	"github.com/roamcard/roamcard/internal/app"
)

func TestVersionMatchesTheService(t *testing.T) {
	if roamcard.Version != app.Version {
		t.Errorf("the package is of version %s, the service of %s", roamcard.Version, app.Version)
	}
}
