package roamcard

import (
	"github.com/roamcard/roamcard/gen/go/roamcard/v1/roamcardv1connect"
)

// Admin is what operators do, by their token; activity is for wallets that the service's configuration names.
type Admin struct {
	roamcardv1connect.OperatorServiceClient
	roamcardv1connect.ActivityServiceClient
}

// Admin is what operators do. Their service is made here and not in New, so that a program that only buys does not
// have it.
func (c *Client) Admin() Admin {
	return Admin{
		roamcardv1connect.NewOperatorServiceClient(c.calls), c.Services.Activity,
	}
}

// given is a text, or nothing when it is empty.
func given(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
