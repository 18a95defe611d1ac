package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"

	"connectrpc.com/connect"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/gen/go/roamcard/v1/roamcardv1connect"
)

// session gives calls the wallet's bearer token. It signs in when there is none, or when it is no longer taken.
type session struct {
	connect.Interceptor
	origin string
	signer roamcard.Signer
	auth   roamcardv1connect.AuthServiceClient

	mu    sync.Mutex // held while signing in, so that many calls sign in once
	token string
}

func newSession(origin string, signer roamcard.Signer, auth roamcardv1connect.AuthServiceClient) *session {
	s := &session{origin: origin, signer: signer, auth: auth}
	s.Interceptor = connect.UnaryInterceptorFunc(s.authorized)
	return s
}

func (s *session) authorized(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		token, err := s.current(ctx, "")
		if err != nil {
			return nil, err
		}
		req.Header().Set("Authorization", "Bearer "+token)
		res, err := next(ctx, req)
		if connect.CodeOf(err) != connect.CodeUnauthenticated {
			return res, err
		}
		// The session has ended. A call that was refused did nothing, so it can be made again; once is enough.
		if token, err = s.current(ctx, token); err != nil {
			return nil, err
		}
		req.Header().Set("Authorization", "Bearer "+token)
		return next(ctx, req)
	}
}

// current returns the token, and a new one when it is empty or the one that was refused.
func (s *session) current(ctx context.Context, refused string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.token != refused {
		return s.token, nil
	}
	token, err := s.signIn(ctx)
	if err != nil {
		return "", fmt.Errorf("sign in: %w", err)
	}
	s.token = token
	return token, nil
}

func (s *session) signIn(ctx context.Context) (string, error) {
	address, scheme := s.signer.Address(), "eip191"
	challenge, err := s.auth.CreateChallenge(ctx,
		&roamcardv1.CreateChallengeRequest{Address: address, PreferredMessageSchemes: []string{scheme}})
	if err != nil {
		return "", err
	}
	if err := s.check(challenge.GetMessage()); err != nil {
		return "", err
	}
	signature, err := s.signer.SignMessage(ctx, challenge.GetMessage())
	if err != nil {
		return "", err
	}
	intent := challenge.GetIntentId()
	verified, err := s.auth.VerifyChallenge(ctx, &roamcardv1.VerifyChallengeRequest{
		Address: address, Signature: "0x" + hex.EncodeToString(signature), IntentId: &intent, MessageScheme: &scheme,
	})
	return verified.GetAccessToken(), err
}

// check reads a message before it is signed (EIP-4361): a service that relays the message of another one would
// otherwise be signed in there. One that names resources is no sign-in; it may reveal a card.
func (s *session) check(message string) error {
	service, err := url.Parse(s.origin)
	if err != nil {
		return err
	}
	head := service.Host + " wants you to sign in with your Ethereum account:\n" + s.signer.Address() + "\n"
	if !strings.HasPrefix(message, head) || !strings.Contains(message, "\nURI: "+s.origin+"\n") ||
		strings.Contains(message, "\nResources:") {
		return errors.New("the message is no sign-in of this wallet at this service; it was not signed")
	}
	return nil
}
