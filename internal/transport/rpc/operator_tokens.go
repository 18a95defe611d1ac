package rpc

import (
	"context"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/internal/admin"
	"github.com/roamcard/roamcard/internal/auth"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/transport/rpcx"
)

// OperatorTokens are the tokens of operators that were minted.
type OperatorTokens interface {
	// Mint makes one, once for each key of the act; the text is empty in a repeat.
	Mint(ctx context.Context, name string, role auth.Role, valid time.Duration,
		act order.OperatorContext) (made admin.TokenView, text secret.Text, err error)
	// List is a page of them, newest first, and the id that the next page begins before; nil on the last.
	List(
		ctx context.Context, q admin.TokenQuery, act order.OperatorContext,
	) (page []admin.TokenView, next uuid.UUID, err error)
	Revoke(ctx context.Context, id uuid.UUID, act order.OperatorContext) (admin.TokenView, error)
}

// MintToken implements roamcardv1connect.OperatorServiceHandler.
func (s OperatorService) MintToken(
	ctx context.Context, req *roamcardv1.MintTokenRequest,
) (*roamcardv1.MintTokenResponse, error) {
	made, text, err := s.Tokens.Mint(ctx, req.GetName(), auth.Role(req.GetRole()),
		time.Duration(req.GetExpiresInSeconds())*time.Second, actOnce(ctx, req.GetReason()))
	if err != nil {
		return nil, err
	}
	res := &roamcardv1.MintTokenResponse{Token: tokenMessage(made)}
	if !text.IsZero() {
		res.Secret = proto.String(text.Reveal())
	}
	return res, nil
}

// ListTokens implements roamcardv1connect.OperatorServiceHandler.
func (s OperatorService) ListTokens(
	ctx context.Context, req *roamcardv1.ListTokensRequest,
) (*roamcardv1.ListTokensResponse, error) {
	q := admin.TokenQuery{Status: admin.TokenStatus(req.GetStatus()), Limit: limitOf(req.GetPageSize())}
	var err error
	if q.Before, err = cursor(req.PageToken); err != nil {
		return nil, err
	}
	page, next, err := s.Tokens.List(ctx, q, act(ctx))
	if err != nil {
		return nil, err
	}
	return &roamcardv1.ListTokensResponse{Tokens: messages(page, tokenMessage), NextPageToken: pageToken(next)}, nil
}

// RevokeToken implements roamcardv1connect.OperatorServiceHandler.
func (s OperatorService) RevokeToken(
	ctx context.Context, req *roamcardv1.RevokeTokenRequest,
) (*roamcardv1.RevokeTokenResponse, error) {
	id, err := uuid.Parse(req.GetId())
	if err != nil {
		return nil, rpcx.Invalid("id", "string.uuid", "must be a uuid")
	}
	found, err := s.Tokens.Revoke(ctx, id, actOnce(ctx, req.GetReason()))
	if err != nil {
		return nil, err
	}
	return &roamcardv1.RevokeTokenResponse{Token: tokenMessage(found)}, nil
}

func tokenMessage(t admin.TokenView) *roamcardv1.OperatorToken {
	m := &roamcardv1.OperatorToken{
		Id: t.ID.String(), Name: t.Name, Role: string(t.Role), Status: string(t.Status), MintedAt: timestamp(t.MintedAt),
		ExpiresAt: timestamp(t.ExpiresAt), LastUsedAt: optionalTimestamp(t.LastUsedAt),
		RevokedBy: optionalText(t.RevokedBy), RevokedAt: optionalTimestamp(t.RevokedAt),
	}
	if len(t.Minters) > 0 {
		m.MintedBy = t.Minters[0]
	}
	return m
}
