package lithicfake

import (
	"fmt"
	"html"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/google/uuid"
)

// session shows the parts of a card in frames of one page, each part once.
type session struct {
	card   *Card
	origin string
	ends   time.Time
	used   map[string]bool
}

func (s *Server) postEmbed(r *http.Request, body []byte) (any, error) {
	var asked struct {
		Type       string `json:"type"`
		Origin     string `json:"target_origin"`
		Expiration *int64 `json:"expiration"`
	}
	if err := read(body, &asked); err != nil {
		return nil, err
	}
	now := s.now()
	ends := now.Add(10 * time.Minute)
	if asked.Expiration != nil {
		ends = time.Unix(*asked.Expiration, 0)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.find(r.PathValue("token"))
	switch {
	case c == nil:
		return nil, absent()
	case asked.Type != "CARD_EMBED":
		return nil, invalid("only card details are shown here")
	case !isOrigin(asked.Origin):
		return nil, invalid("the target origin is no canonical HTTPS origin")
	case !ends.After(now) || ends.After(now.Add(10*time.Minute)):
		return nil, invalid("the expiration is not within ten minutes")
	}
	token := uuid.NewString()
	s.sessions[token] = &session{card: c, origin: asked.Origin, ends: ends, used: map[string]bool{}}
	return map[string]string{"session": token}, nil
}

// isOrigin takes https origins and, unlike the vendor, those of pages on this machine.
func isOrigin(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme+"://"+u.Host != text {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Scheme == "https" || (u.Scheme == "http" && (u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()))
}

// getEmbed is a frame: one part of a card, once, on pages of the session's origin only.
func (s *Server) getEmbed(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	s.Count("frame")
	s.mu.Lock()
	defer s.mu.Unlock()
	one, kind := s.sessions[query.Get("session")], query.Get("type")
	if one == nil || one.used[kind] || !s.now().Before(one.ends) {
		answered(nil, &problem{http.StatusUnauthorized, "the session is not valid"}).Write(w)
		return
	}
	text, known := map[string]string{
		"PAN": one.card.Number, "CVV": one.card.Code, "EXP_MONTH": "06",
		"EXP_YEAR": strconv.Itoa(one.card.Created.Year() + 5),
	}[kind]
	if !known {
		answered(nil, invalid("the type is unknown")).Write(w)
		return
	}
	one.used[kind] = true
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; frame-ancestors "+one.origin)
	// The client may have disconnected.
	_, _ = fmt.Fprintf(w, "<!doctype html><html><body><div id=\"app\">%s</div></body></html>\n", html.EscapeString(text))
}
