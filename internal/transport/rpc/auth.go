package rpc

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"google.golang.org/protobuf/types/known/structpb"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/internal/auth"
	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/telemetry"
	"github.com/roamcard/roamcard/internal/transport/rpcx"
	"github.com/roamcard/roamcard/internal/x402"
)

// AuthService signs wallets in.
type AuthService struct {
	SignIns SignIns
	// Metrics may be nil.
	Metrics *telemetry.Metrics
}

// SignIns gives wallets their sessions.
type SignIns interface {
	Challenge(ctx context.Context, wallet x402.Address, schemes []auth.Scheme) (auth.Challenge, auth.TypedData, error)
	// Verify takes a signed challenge once. The token of the session is shown this once.
	Verify(ctx context.Context, r auth.VerifyRequest) (auth.Session, secret.Text, error)
	Revoke(ctx context.Context, who auth.Caller) error
}

// CreateChallenge implements roamcardv1connect.AuthServiceHandler.
func (s AuthService) CreateChallenge(
	ctx context.Context, req *roamcardv1.CreateChallengeRequest,
) (*roamcardv1.CreateChallengeResponse, error) {
	who, err := address(req.GetAddress())
	if err != nil {
		return nil, err
	}
	ch, typed, err := s.SignIns.Challenge(ctx, who, schemes(req.GetPreferredMessageSchemes()))
	if err != nil {
		return nil, err
	}
	s.Metrics.SignIn(ctx, "issued")
	doc, err := typedData(typed)
	if err != nil {
		return nil, err
	}
	return &roamcardv1.CreateChallengeResponse{
		IntentId: ch.ID.String(), MessageScheme: string(ch.Scheme), Message: ch.Message, TypedData: doc,
		ExpiresAt: timestamp(ch.ExpiresAt),
	}, nil
}

// VerifyChallenge implements roamcardv1connect.AuthServiceHandler.
func (s AuthService) VerifyChallenge(
	ctx context.Context, req *roamcardv1.VerifyChallengeRequest,
) (*roamcardv1.VerifyChallengeResponse, error) {
	who, err := address(req.GetAddress())
	if err != nil {
		return nil, err
	}
	r := auth.VerifyRequest{
		Wallet: who, Signature: req.GetSignature(), Scheme: auth.Scheme(req.GetMessageScheme()), Message: req.Message,
	}
	if req.IntentId != nil {
		if r.IntentID, err = uuid.Parse(req.GetIntentId()); err != nil {
			return nil, rpcx.Invalid("intentId", "string.uuid", "must be a uuid")
		}
	}
	session, token, err := s.SignIns.Verify(ctx, r)
	if err != nil {
		s.Metrics.SignIn(ctx, "refused")
		return nil, err
	}
	s.Metrics.SignIn(ctx, "verified")
	return &roamcardv1.VerifyChallengeResponse{
		AccessToken: token.Reveal(), TokenType: "Bearer", Wallet: session.Wallet.String(),
		Scopes: scopeNames(session.Scopes), ExpiresAt: timestamp(session.ExpiresAt),
	}, nil
}

// GetSession implements roamcardv1connect.AuthServiceHandler.
func (s AuthService) GetSession(
	ctx context.Context, _ *roamcardv1.GetSessionRequest,
) (*roamcardv1.GetSessionResponse, error) {
	who := rpcx.Caller(ctx)
	return &roamcardv1.GetSessionResponse{
		Wallet: who.Wallet.String(), Scopes: scopeNames(who.Scopes), ExpiresAt: timestamp(who.ExpiresAt),
	}, nil
}

// Logout implements roamcardv1connect.AuthServiceHandler.
func (s AuthService) Logout(ctx context.Context, _ *roamcardv1.LogoutRequest) (*roamcardv1.LogoutResponse, error) {
	if err := s.SignIns.Revoke(ctx, rpcx.Caller(ctx)); err != nil {
		return nil, err
	}
	return &roamcardv1.LogoutResponse{Revoked: true}, nil
}

func address(s string) (x402.Address, error) {
	a, err := x402.ParseAddress(s)
	if err != nil {
		return x402.Address{}, rpcx.Invalid("address", "address",
			"must be 0x and 40 hex digits, all lower case, all upper case, or with the EIP-55 checksum")
	}
	return a, nil
}

func cardID(s string) (uuid.UUID, error) {
	id, err := uuid.Parse(s)
	if err != nil {
		return uuid.Nil, rpcx.Invalid("id", "string.uuid", "must be a uuid")
	}
	return id, nil
}

func schemes(names []string) []auth.Scheme {
	out := make([]auth.Scheme, len(names))
	for i, n := range names {
		out[i] = auth.Scheme(n)
	}
	return out
}

func scopeNames(scopes []auth.Scope) []string {
	out := make([]string, len(scopes))
	for i, s := range scopes {
		out[i] = string(s)
	}
	return out
}

func typedData(doc auth.TypedData) (*structpb.Struct, error) {
	if doc == nil {
		return nil, nil
	}
	s, err := structpb.NewStruct(doc)
	if err != nil {
		return nil, fmt.Errorf("encode the typed data: %w", err)
	}
	return s, nil
}
