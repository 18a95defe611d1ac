package rpc

import (
	"context"
	"time"

	"github.com/google/uuid"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/internal/admin"
	"github.com/roamcard/roamcard/internal/auth"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/transport/rpcx"
)

// AuditTrail is what operators did.
type AuditTrail interface {
	// Audit is a page of it, newest first, and the id that the next page begins before; nil on the last.
	Audit(
		ctx context.Context, q admin.AuditQuery, act order.OperatorContext,
	) (page []admin.AuditRecord, next uuid.UUID, err error)
	// Presented records that an operator asked who they are.
	Presented(ctx context.Context, act order.OperatorContext) error
}

// WhoAmI implements roamcardv1connect.OperatorServiceHandler.
func (s OperatorService) WhoAmI(ctx context.Context, _ *roamcardv1.WhoAmIRequest) (*roamcardv1.WhoAmIResponse, error) {
	by := act(ctx)
	if err := s.Trail.Presented(ctx, by); err != nil {
		return nil, err
	}
	who := rpcx.Caller(ctx)
	res := &roamcardv1.WhoAmIResponse{Operator: who.Name, Role: string(who.Role), Source: who.Source}
	if !who.ExpiresAt.IsZero() {
		res.ExpiresAt = timestamp(who.ExpiresAt)
	}
	var err error
	res.Operations, err = operationsOf(who.Role)
	return res, err
}

// operationsOf are the operators' operations that a role may ask for, in the order of the proto files.
func operationsOf(role auth.Role) (all []string, err error) {
	methods := roamcardv1.File_roamcard_v1_operator_proto.Services().ByName("OperatorService").Methods()
	for i := range methods.Len() {
		policy, err := rpcx.PolicyOf(methods.Get(i))
		if err != nil {
			return nil, err
		}
		if role.Covers(rpcx.RoleOf(policy)) {
			all = append(all, string(methods.Get(i).Name()))
		}
	}
	return all, nil
}

// ListAudit implements roamcardv1connect.OperatorServiceHandler.
func (s OperatorService) ListAudit(
	ctx context.Context, req *roamcardv1.ListAuditRequest,
) (*roamcardv1.ListAuditResponse, error) {
	q := admin.AuditQuery{
		Actor: req.GetActor(), Action: req.GetAction(), Subject: req.GetSubject(), Limit: limitOf(req.GetPageSize()),
	}
	var err error
	if q.Since, err = instant("since", req.Since); err != nil {
		return nil, err
	}
	if q.Until, err = instant("until", req.Until); err != nil {
		return nil, err
	}
	if q.Before, err = cursor(req.PageToken); err != nil {
		return nil, err
	}
	page, next, err := s.Trail.Audit(ctx, q, act(ctx))
	if err != nil {
		return nil, err
	}
	return &roamcardv1.ListAuditResponse{Records: messages(page, auditRecord), NextPageToken: pageToken(next)}, nil
}

// instant reads a time of RFC 3339; an absent one is zero.
func instant(field string, text *string) (time.Time, error) {
	if text == nil {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, *text)
	if err != nil {
		return time.Time{}, rpcx.Invalid(field, "string.rfc3339", "must be a time such as 2026-05-04T10:00:00Z")
	}
	return at, nil
}

func auditRecord(r admin.AuditRecord) *roamcardv1.AuditRecord {
	return &roamcardv1.AuditRecord{
		Id: r.ID.String(), At: timestamp(r.At), Actor: r.Actor, Action: r.Action, Subject: r.Subject,
		Reason: optionalText(r.Reason), Before: optionalText(string(r.Before)), After: optionalText(string(r.After)),
	}
}
