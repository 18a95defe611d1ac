package agent

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
)

// Profile is how an eSIM stands at its supplier.
type Profile struct {
	OrderID    string `json:"orderId"`
	Status     string `json:"status" jsonschema:"not_installed, installed, active, used_up, expired, cancelled or unknown"`
	UsedBytes  string `json:"usedBytes,omitempty" jsonschema:"absent when the supplier does not tell"`
	TotalBytes string `json:"totalBytes,omitempty" jsonschema:"absent when the data is unlimited"`
	MeasuredAt string `json:"measuredAt,omitempty" jsonschema:"when the supplier measured it"`
	ExpiresAt  string `json:"expiresAt,omitempty"`
	ReadAt     string `json:"readAt" jsonschema:"when the supplier was asked"`
}

func (s *Server) getESIMProfile(ctx context.Context, _ call, in esimIn) (Profile, error) {
	client, _, err := s.payer(ctx)
	if err != nil {
		return Profile{}, err
	}
	p, err := client.ESIM.Profile(ctx, in.OrderID)
	if err != nil {
		return Profile{}, err
	}
	return profileOf(in.OrderID, p), nil
}

func profileOf(orderID string, p *roamcardv1.EsimProfile) Profile {
	u := p.GetUsage()
	return Profile{
		OrderID: identifier(orderID), Status: printable(p.GetStatus(), maxName),
		UsedBytes: printable(u.GetUsedBytes(), mostDigits), TotalBytes: printable(u.GetTotalBytes(), mostDigits),
		MeasuredAt: rfc3339(u.GetMeasuredAt()), ExpiresAt: rfc3339(p.GetExpiresAt()), ReadAt: rfc3339(p.GetReadAt()),
	}
}

const mostDigits = 20

// rfc3339 is empty without a time.
func rfc3339(at *timestamppb.Timestamp) string {
	if at == nil {
		return ""
	}
	return at.AsTime().Format(time.RFC3339)
}
