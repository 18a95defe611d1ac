package roamcard

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"connectrpc.com/connect/v2"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/internal/handshake"
	"github.com/roamcard/roamcard/internal/x402"
)

// refreshBefore is how long before its end a session is not used any more.
const refreshBefore = time.Minute

// session is the wallet's sign-in: made when it is first needed, by one caller while the others wait.
type session struct {
	signing semaphore
	token   string
	expires time.Time
}

// Auth is the wallet's session. Whatever needs one signs in by itself.
type Auth struct{ client *Client }

// SignIn signs the wallet in, unless it is, and says whose the session is, what it may do and until when.
func (a Auth) SignIn(ctx context.Context) (*roamcardv1.GetSessionResponse, error) {
	return a.client.Services.Auth.GetSession(ctx, &roamcardv1.GetSessionRequest{})
}

// SignOut ends the session.
func (a Auth) SignOut(ctx context.Context) error {
	s := &a.client.session
	if err := s.signing.take(ctx); err != nil {
		return err
	}
	signedIn := s.token != ""
	s.signing.give()
	if !signedIn {
		return nil
	}
	_, err := a.client.Services.Auth.Logout(ctx, &roamcardv1.LogoutRequest{})
	_ = s.signing.take(context.WithoutCancel(ctx)) // which never ends
	s.token = ""
	s.signing.give()
	return err
}

// token is a live session's; stale is one that was refused.
func (c *Client) token(ctx context.Context, stale string) (string, error) {
	s := &c.session
	if err := s.signing.take(ctx); err != nil {
		return "", err
	}
	defer s.signing.give()
	if s.token != "" && s.token != stale && c.config.Now().Add(refreshBefore).Before(s.expires) {
		return s.token, nil
	}
	if c.config.Signer == nil {
		return "", ErrNoSigner
	}
	address := c.config.Signer.Address()
	ch, err := c.Services.Auth.CreateChallenge(inner(ctx),
		&roamcardv1.CreateChallengeRequest{Address: address, PreferredMessageSchemes: []string{messageScheme}})
	if err != nil {
		return "", fmt.Errorf("ask for a sign-in message: %w", err)
	}
	signature, err := c.signMessage(ctx, ch.GetMessage(), nil)
	if err != nil {
		return "", err
	}
	scheme, intent := messageScheme, ch.GetIntentId()
	in, err := c.Services.Auth.VerifyChallenge(inner(ctx), &roamcardv1.VerifyChallengeRequest{
		Address: address, Signature: signature, IntentId: &intent, MessageScheme: &scheme,
	})
	if err != nil {
		return "", fmt.Errorf("sign in: %w", err)
	}
	s.token, s.expires = in.GetAccessToken(), in.GetExpiresAt().AsTime()
	return s.token, nil
}

// signMessage signs a message of this service for this wallet that names exactly these resources: a service
// that relays another one's message gets no signature.
func (c *Client) signMessage(ctx context.Context, text string, resources []string) (string, error) {
	m, err := handshake.ParseMessage(text)
	if err != nil {
		return "", fmt.Errorf("read the message to sign: %w", err)
	}
	origin, err := url.Parse(c.origin)
	if err != nil {
		return "", err
	}
	wallet, err := x402.ParseAddress(c.config.Signer.Address())
	if err != nil {
		return "", fmt.Errorf("read the signer's address: %w", err)
	}
	if m.Domain != origin.Host || m.URI != c.origin || m.Address != wallet || m.ChainID != x402.ChainID {
		return "", denied(ErrTermsMismatch, "the message to sign is for %s at %s; it was not signed", m.Address, m.URI)
	}
	named := strings.Join(m.Resources, " ")
	for _, r := range resources {
		if !strings.Contains(" "+named+" ", " "+r+" ") {
			return "", denied(ErrTermsMismatch, "the message to sign does not name %s; it was not signed", r)
		}
	}
	if resources == nil && len(m.Resources) > 0 {
		return "", denied(ErrTermsMismatch, "the sign-in message names resources; it was not signed")
	}
	sig, err := c.config.Signer.SignMessage(ctx, text)
	if err != nil {
		return "", fmt.Errorf("sign the message: %w: %w", ErrSigner, err)
	}
	return "0x" + hex.EncodeToString(sig), nil
}

// authorized gives each call what its policy asks for: a session, or the operator's token. A session that is
// refused is made again, once.
func (c *Client) authorized(next unary) unary {
	return func(ctx context.Context, spec connect.Spec, request, answer any) error {
		call := func() error { return next(ctx, spec, request, answer) }
		switch access(spec) {
		case roamcardv1.Access_ACCESS_OPERATOR:
			authorize(ctx, c.config.OperatorToken.Reveal())
		case roamcardv1.Access_ACCESS_SESSION, roamcardv1.Access_ACCESS_DELIVERY, roamcardv1.Access_ACCESS_WATCH:
			return c.signedIn(ctx, call)
		case roamcardv1.Access_ACCESS_UNSPECIFIED, roamcardv1.Access_ACCESS_PUBLIC, roamcardv1.Access_ACCESS_PAYER:
		}
		return call()
	}
}

// authorize gives a call a token.
func authorize(ctx context.Context, token string) {
	if info, ok := connect.CallInfoForClientContext(ctx); ok {
		info.RequestHeader().Set("Authorization", "Bearer "+token)
	}
}

func (c *Client) signedIn(ctx context.Context, call func() error) error {
	info, ok := connect.CallInfoForClientContext(ctx)
	if ok && info.RequestHeader().Get(deliveryHeader) != "" || headersOf(ctx).Get(deliveryHeader) != "" {
		return call()
	}
	token, err := c.token(ctx, "")
	if err != nil {
		return err
	}
	authorize(ctx, token)
	if err = call(); !errors.Is(err, &APIError{Code: "session_invalid"}) {
		return err
	}
	if token, err = c.token(ctx, token); err != nil {
		return err
	}
	authorize(ctx, token)
	return call()
}

// messageScheme is how the wallet signs messages: personal_sign (EIP-191).
const messageScheme = "eip191"

const deliveryHeader = "X-Esim-Delivery-Token"

// access is who may call a method, as its policy says.
func access(spec connect.Spec) roamcardv1.Access {
	method, ok := spec.Schema.(protoreflect.MethodDescriptor)
	if !ok {
		return roamcardv1.Access_ACCESS_UNSPECIFIED
	}
	policy, _ := proto.GetExtension(method.Options(), roamcardv1.E_Policy).(*roamcardv1.Policy)
	return policy.GetAccess()
}
