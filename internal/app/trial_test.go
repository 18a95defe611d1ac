package app_test

import (
	"errors"
	"testing"

	"github.com/roamcard/roamcard/internal/app"
)

func TestProvidersAreNotTriedWhereMoneyIsReal(t *testing.T) {
	c := app.Config{Environment: app.Production}
	if trials, err := c.TryProviders(t.Context(), 1); !errors.Is(err, app.ErrProductionTrial) || trials != nil {
		t.Errorf("%v, %v", trials, err)
	}
}
