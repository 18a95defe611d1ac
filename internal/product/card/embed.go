package card

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/x402"
)

// Embed is how an issuer with RevealEmbed shows a card: on a page of ours, in frames of its own. Nothing that it
// returns is ever stored, logged or cached.
type Embed interface {
	// PageParts are those of every page. They do not change.
	PageParts() PageParts
	// Show begins to show a card on a page. Each look takes a call of its own.
	Show(ctx context.Context, account string, on Look) (Shown, error)
	// Unlock is what a page with a script needs once, for what the vendor's script gave it. An issuer without a script
	// returns an error.
	Unlock(ctx context.Context, account, nonce string) (secret.Text, error)
}

// PageParts are what a page loads. All else is ours.
type PageParts struct {
	// Frames, Scripts and Connects are origins that the page's policy allows: in frames, as scripts, and to be called by
	// the vendor's script.
	Frames, Scripts, Connects []string
	// VendorScript is the URL of the vendor's script, below one of Scripts; empty without one.
	VendorScript string
	// Script is the adapter's own, which is served from our origin. It finds the values of Shown and the token for Unlock
	// (unlock) in the page's meta elements, and the elements number, expiry and code to fill. To unlock, it posts the
	// token and the nonce as JSON to "unlock" next to it, and gets the secret.
	Script []byte
}

// Look is one page on which a card is shown.
type Look struct {
	// Origin is the page's.
	Origin string
	// Until is when what the page holds may end.
	Until time.Time
}

// Shown is what one page shows: frames, or values for its script.
type Shown struct {
	Frames []Frame
	Values []Value
	// Parts are those of the card's issuer. An issuer does not set them.
	Parts *PageParts
}

// Frame shows one thing, such as the number. Its URL works once.
type Frame struct {
	Title string
	URL   secret.Text
}

// Value is for the page's script.
type Value struct{ Name, Content string }

// Link is a link to a page that shows a card once.
type Link struct {
	ID    uuid.UUID
	Card  uuid.UUID
	Owner x402.Address
	// Token is the hash of the token in the link's URL. It opens the page.
	Token [32]byte
	// ExpiresAt is when it no longer does.
	ExpiresAt time.Time
}

// ErrLinkUsed says that a link, or its page, was used or has expired.
var ErrLinkUsed = errors.New("the link was used or has expired")

// Links keeps links.
type Links interface {
	// CreateLink stores a new link.
	CreateLink(ctx context.Context, l Link) error
	// CheckLink is nil while a link can be opened, which it changes nothing about: ErrLinkUsed after it and when the link
	// has expired, ErrNotFound when there is none.
	CheckLink(ctx context.Context, token [32]byte, now time.Time) error
	// OpenLink is one guarded update: it marks a link opened, and stores the hash of the token that the page unlocks with
	// before a time. It is nil for exactly one caller; ErrLinkUsed after it and when the link has expired, ErrNotFound
	// when there is none.
	OpenLink(ctx context.Context, token, unlock [32]byte, now, before time.Time) (Link, error)
	// UnlockLink is the same for the page's own token.
	UnlockLink(ctx context.Context, unlock [32]byte, now time.Time) (Link, error)
}

const (
	// linkFor is how long a link can be opened, and pageFor how long its page can unlock.
	linkFor = time.Minute
	pageFor = time.Minute
)

// LinkPath is below which our pages show cards.
const LinkPath = "/reveal/"

// Link makes a link to a page that shows an owner's card once. The caller has just proven to be the owner.
func (c *Cards) Link(ctx context.Context, id uuid.UUID, owner x402.Address) (secret.Text, time.Time, error) {
	card, err := c.Own(ctx, id, owner)
	if err != nil {
		return secret.Text{}, time.Time{}, err
	}
	token, hash := newToken()
	l := Link{ID: uuid.New(), Card: card.ID, Owner: owner, Token: hash, ExpiresAt: c.Now().UTC().Add(linkFor)}
	if err := c.Links.CreateLink(ctx, l); err != nil {
		return secret.Text{}, time.Time{}, fmt.Errorf("store the link: %w", err)
	}
	return secret.New(c.Origin + LinkPath + token.Reveal()), l.ExpiresAt, nil
}

// CheckLink is nil while a link can be opened; ErrLinkUsed or ErrNotFound otherwise. It uses nothing.
func (c *Cards) CheckLink(ctx context.Context, token string) error {
	hash, ok := hashOf(token)
	if !ok {
		return ErrNotFound
	}
	if err := c.Links.CheckLink(ctx, hash, c.Now().UTC()); err != nil {
		return fmt.Errorf("look at the link: %w", err)
	}
	return nil
}

// OpenLink uses a link, and begins to show its card. unlock is the page's token for Unlock. Whatever goes wrong, the
// link is used: ErrLinkUsed and ErrNotFound say that it was before, or never was.
func (c *Cards) OpenLink(ctx context.Context, token string) (shown Shown, unlock secret.Text, err error) {
	hash, ok := hashOf(token)
	if !ok {
		return Shown{}, secret.Text{}, ErrNotFound
	}
	unlock, unlocks := newToken()
	now := c.Now().UTC()
	l, err := c.Links.OpenLink(ctx, hash, unlocks, now, now.Add(pageFor))
	if err != nil {
		return Shown{}, secret.Text{}, fmt.Errorf("open the link: %w", err)
	}
	card, err := c.Own(ctx, l.Card, l.Owner)
	if err != nil {
		return Shown{}, secret.Text{}, err
	}
	at, err := c.at(card.Provider)
	if err != nil {
		return Shown{}, secret.Text{}, err
	}
	ctx, cancel := fault.Within(ctx, c.CallTimeout)
	defer cancel()
	// The vendor's clock may be ahead of ours.
	shown, err = at.Embed.Show(ctx, card.Account, Look{Origin: c.Origin, Until: now.Add(2 * pageFor)})
	if err != nil {
		return Shown{}, secret.Text{}, fmt.Errorf("show the card: %w", errors.Join(err, issuerDown()))
	}
	parts := at.Embed.PageParts()
	shown.Parts = &parts
	return shown, unlock, nil
}

// Unlock uses the token of an opened page, and returns what the page's script needs.
func (c *Cards) Unlock(ctx context.Context, token, nonce string) (secret.Text, error) {
	hash, ok := hashOf(token)
	if !ok {
		return secret.Text{}, ErrNotFound
	}
	l, err := c.Links.UnlockLink(ctx, hash, c.Now().UTC())
	if err != nil {
		return secret.Text{}, fmt.Errorf("unlock the page: %w", err)
	}
	card, err := c.Own(ctx, l.Card, l.Owner)
	if err != nil {
		return secret.Text{}, err
	}
	at, err := c.at(card.Provider)
	if err != nil {
		return secret.Text{}, err
	}
	ctx, cancel := fault.Within(ctx, c.CallTimeout)
	defer cancel()
	key, err := at.Embed.Unlock(ctx, card.Account, nonce)
	if err != nil {
		return secret.Text{}, fmt.Errorf("unlock the card: %w", errors.Join(err, issuerDown()))
	}
	return key, nil
}

// newToken is 256 random bits, and their hash.
func newToken() (secret.Text, [32]byte) {
	token := make([]byte, 32)
	_, _ = rand.Read(token) // never fails: the program ends when there is no randomness
	return secret.New(base64.RawURLEncoding.EncodeToString(token)), sha256.Sum256(token)
}

func hashOf(token string) ([32]byte, bool) {
	plain, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(plain) != 32 {
		return [32]byte{}, false
	}
	return sha256.Sum256(plain), true
}
