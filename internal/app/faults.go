package app

import (
	"errors"
	"fmt"

	"github.com/roamcard/roamcard/internal/faultpoint"
)

// faultVariable names the points at which tests crash the program.
const faultVariable = "ROAMCARD_FAULT"

// armFaults arms the fault points that the environment names. Outside of the sandbox they are an error.
func armFaults(environment string, lookup func(string) (string, bool)) error {
	spec, _ := lookup(faultVariable)
	if spec != "" && environment != Sandbox {
		return errors.New(faultVariable + ": faults are for the sandbox only")
	}
	if err := faultpoint.Arm(spec); err != nil {
		return fmt.Errorf("%s: %w", faultVariable, err)
	}
	return nil
}
