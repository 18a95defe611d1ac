package roamcard

import (
	"context"
	"crypto/ecdh"
	"crypto/hpke"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/internal/handshake"
)

// Credentials are what a merchant asks for. A presenter shows them; nothing else ever gets them.
type Credentials struct {
	Number       string `json:"number"`
	ExpiryMonth  int    `json:"expiryMonth"`
	ExpiryYear   int    `json:"expiryYear"`
	SecurityCode string `json:"securityCode"`
}

// MarshalJSON implements json.Marshaler without the card.
func (c Credentials) MarshalJSON() ([]byte, error) { return json.Marshal(c.String()) }

// String implements fmt.Stringer without the card.
func (c Credentials) String() string { return NewSecret("").String() }

// GoString implements fmt.GoStringer without the card.
func (c Credentials) GoString() string { return c.String() }

// Presenter shows a card to the person in front of the machine, and to nobody else.
type Presenter interface {
	// Present returns once the card was seen, or was not and cannot be any more.
	Present(ctx context.Context, c Credentials) (Presented, error)
}

// Presented says what became of a reveal.
type Presented struct {
	// Seen says that the card was shown to somebody who asked for it at the screen; otherwise Reason says why not.
	Seen   bool   `json:"presented"`
	Reason string `json:"reason,omitempty"`
}

// PagePresenter is a Presenter that can open a page of the service's in a browser, for cards whose issuer shows them on
// a page only.
type PagePresenter interface {
	Presenter
	// PresentPage opens a page, which shows the card once. Its URL is a secret like the card: it is opened, and goes
	// nowhere else, a browser's command line included.
	PresentPage(ctx context.Context, url string) (Presented, error)
}

// ErrBrowserOnly says that the cards' issuer shows them in a browser only, and the presenter is none.
var ErrBrowserOnly = errors.New("the issuer of this service's cards shows them in a browser only")

// Reveal shows a card through a presenter. The answer is sealed to a key that is made here and forgotten, so
// that neither what lies between nor the caller of this method ever holds the card. Where the issuer shows cards on a
// page only, the presenter has to be a PagePresenter; ErrBrowserOnly otherwise.
func (c Cards) Reveal(ctx context.Context, cardID string, to Presenter) (Presented, error) {
	if c.client.config.Signer == nil {
		return Presented{}, ErrNoSigner
	}
	key, err := hpke.DHKEM(ecdh.X25519()).GenerateKey()
	if err != nil {
		return Presented{}, fmt.Errorf("make a key for the card: %w", err)
	}
	recipient := base64.StdEncoding.EncodeToString(key.PublicKey().Bytes())
	ch, err := c.revealChallenge(ctx, cardID, &recipient)
	if errors.Is(err, &APIError{Code: "sealing_missing"}) {
		return c.revealOnPage(ctx, cardID, to)
	}
	if err != nil {
		return Presented{}, err
	}
	res, err := c.reveal(ctx, cardID, ch, &recipient,
		"urn:roamcard:recipient-key:"+base64.RawURLEncoding.EncodeToString(key.PublicKey().Bytes()))
	if err != nil {
		return Presented{}, err
	}
	card, err := open(key, res.GetSealed(), cardID)
	if err != nil {
		return Presented{}, fmt.Errorf("open the card: %w", err)
	}
	return to.Present(ctx, card)
}

// revealOnPage opens the service's page of a card. What is signed says that it is for a page: it is of no use to what
// lies between and only claims that the service does not seal.
func (c Cards) revealOnPage(ctx context.Context, cardID string, to Presenter) (Presented, error) {
	pages, ok := to.(PagePresenter)
	if !ok {
		return Presented{}, ErrBrowserOnly
	}
	ch, err := c.revealChallenge(ctx, cardID, nil)
	if err != nil {
		return Presented{}, err
	}
	res, err := c.reveal(ctx, cardID, ch, nil, "urn:roamcard:reveal:page")
	if err != nil {
		return Presented{}, err
	}
	page, err := url.Parse(res.GetEmbed().GetUrl())
	if err != nil || page.User != nil || page.Scheme+"://"+page.Host != c.client.origin {
		return Presented{}, errors.New("the page of the card is not the service's; it was not opened") // it is a secret
	}
	return pages.PresentPage(ctx, page.String())
}

func (c Cards) revealChallenge(
	ctx context.Context, cardID string, recipient *string,
) (*roamcardv1.CreateRevealChallengeResponse, error) {
	ch, err := c.client.Services.Card.CreateRevealChallenge(ctx, &roamcardv1.CreateRevealChallengeRequest{
		Id: cardID, PreferredMessageSchemes: []string{messageScheme}, RecipientKey: recipient,
	})
	if err != nil {
		return nil, fmt.Errorf("ask for a reveal challenge: %w", err)
	}
	return ch, nil
}

// reveal signs a challenge that names the card and a resource, and has the card revealed.
func (c Cards) reveal(
	ctx context.Context, cardID string, ch *roamcardv1.CreateRevealChallengeResponse, recipient *string, resource string,
) (*roamcardv1.RevealCardResponse, error) {
	signature, err := c.client.signMessage(ctx, ch.GetMessage(), []string{"urn:roamcard:card:" + cardID, resource})
	if err != nil {
		return nil, err
	}
	scheme := messageScheme
	res, err := c.client.Services.Card.RevealCard(ctx, &roamcardv1.RevealCardRequest{
		Id: cardID, IntentId: ch.GetIntentId(), Signature: signature, MessageScheme: &scheme, RecipientKey: recipient,
	})
	if err != nil {
		return nil, fmt.Errorf("reveal the card: %w", err)
	}
	return res, nil
}

func open(key hpke.PrivateKey, box *roamcardv1.SealedCredentials, cardID string) (Credentials, error) {
	if box.GetSuite() != handshake.SealSuite {
		return Credentials{}, fmt.Errorf("it is sealed as %q, not as %s", box.GetSuite(), handshake.SealSuite)
	}
	enc, err1 := base64.StdEncoding.DecodeString(box.GetEnc())
	sealed, err2 := base64.StdEncoding.DecodeString(box.GetCiphertext())
	if err := errors.Join(err1, err2); err != nil {
		return Credentials{}, err
	}
	plain, err := handshake.Open(key, enc, []byte(handshake.RevealInfo), []byte(cardID), sealed)
	if err != nil {
		return Credentials{}, err
	}
	defer clear(plain)
	var c Credentials
	if err := json.Unmarshal(plain, &c); err != nil || !cardNumber.MatchString(c.Number) ||
		!cardCode.MatchString(c.SecurityCode) {
		// A decoding error could quote the number, and a terminal would obey what is none.
		return Credentials{}, errors.New("what was sealed is not a card")
	}
	return c, nil
}

var cardNumber, cardCode = regexp.MustCompile(`^[0-9]{12,19}$`), regexp.MustCompile(`^[0-9]{3,4}$`)
