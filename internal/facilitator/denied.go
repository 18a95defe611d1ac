package facilitator

import (
	"errors"
	"net/http"
)

// IsDenied reports whether the facilitator refused the caller and not a payment: HTTP 401 or 403.
func IsDenied(err error) bool {
	e, ok := errors.AsType[*unclearError](err)
	return ok && (e.status == http.StatusUnauthorized || e.status == http.StatusForbidden)
}
