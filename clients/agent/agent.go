// Package agent serves a wallet to an agent as tools of the Model Context Protocol, within what its user allowed.
//
//	model -> tool -> arguments checked by schema -> the Go client: journal, terms, caps -> service
//	buy_*: journal has a payment under the key -> the same bytes again, nobody is asked
//	       otherwise terms -> approval (a form of the client's, or `roamcard approve`) -> sign -> send
//	show_*: card or eSIM -> a window or terminal that this process opens; the model learns whether it was seen
//
// The settings' file decides: no tool changes it, and nothing that it does not allow is signed, whatever a model, a
// client or the service says. No message holds a card number, an eSIM or a key.
package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/roamcard/roamcard/clients/go/roamcard"
)

// answerWithin is how long a tool may take: some clients wait only five seconds. What takes longer continues in the
// background.
const answerWithin = 3500 * time.Millisecond

// goesOn is how long a read continues after its call was answered.
const goesOn = time.Minute

// Presenter shows cards and eSIMs to the person in front of the machine.
type Presenter interface {
	roamcard.Presenter
	roamcard.ESIMPresenter
}

// Config has a server's dependencies.
type Config struct {
	Settings Settings
	// Unusable says why the server can do nothing, such as settings that are not there. It starts all the same, lists its
	// tools and refuses every call with it: a client that only sees a process end knows nothing. The other members may
	// then be missing, but for Log.
	Unusable error
	// SettingsFile is where the settings are, for what a person is asked to type; empty where they are looked for anyway.
	SettingsFile string
	// Reread reads the settings again, before each purchase; nil means that they stay as they are.
	Reread func() (Settings, error)
	// OpenSigner returns the wallet's signer, or nil without an error if there is none. It is called when a tool first
	// needs it, and again after a failure. Its context is the session's.
	OpenSigner func(ctx context.Context) (roamcard.Signer, error)
	// Store is the journal, which survives the process.
	Store     roamcard.Store
	Approvals *Approvals
	Presenter Presenter
	// HTTP is the network; nil means the usual one.
	HTTP http.RoundTripper
	// MaxReplays and Timeout are the client's; zero values mean its own.
	MaxReplays *int
	Timeout    time.Duration
	Version    string
	Log        *slog.Logger
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Server is one session with a client.
type Server struct {
	Config
	settings Settings // as they were at the start
	latest   atomic.Pointer[Settings]
	states   *states
	jobs     *jobs
	resumed  sync.Once
	window   atomic.Pointer[window]
	asking   sync.Map // the keys of the purchases that a person is being asked about

	mu     sync.Mutex
	opened *opening
}

// New makes a server. It makes no call and opens no wallet.
func New(c Config) *Server {
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Server{Config: c, settings: c.Settings, states: newStates(c.Now)}
}

const instructions = "Buys virtual cards and travel eSIMs for USDC from the user's own wallet, within limits that " +
	"only the user can change. " +
	"Choose a new purchaseKey for each purchase, remember it, and use the same one whenever you repeat it: the same key " +
	"never pays twice. " +
	"A purchase that says processing goes on by itself: ask by get_order with the purchaseKey. " +
	"Card numbers and eSIM codes are never given to you: show_card and show_esim open a window for the user."

// Run serves a session until the client ends it or ctx ends. Purchases that were under way stay in the journal, and the
// next session takes them up.
func (s *Server) Run(ctx context.Context, t sdk.Transport) error {
	ctx, stop := context.WithCancel(ctx)
	s.jobs = newJobs(ctx, s.pay)
	defer s.jobs.wait()
	defer stop()
	server := sdk.NewServer(&sdk.Implementation{
		Name: "roamcard", Title: "roamcard wallet", Version: s.Version,
	}, &sdk.ServerOptions{
		Instructions: instructions, Logger: s.Log.With(slog.String("part", "mcp")),
		Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}},
	})
	server.AddReceivingMiddleware(s.afterGreeting)
	s.addTools(server)
	err := server.Run(ctx, t)
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// afterGreeting starts what needs the network after the client has been initialized: clients give up on a server that
// is slow to initialize. The newest protocol initializes by server/discover.
func (s *Server) afterGreeting(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		if method != "initialize" && method != "server/discover" {
			s.takeUp()
		}
		return next(ctx, method, req)
	}
}

// takeUp resumes, once, the purchases that an earlier session left open: their payments are signed, so nobody is asked.
func (s *Server) takeUp() {
	if s.Unusable != nil {
		return
	}
	s.resumed.Do(func() {
		s.jobs.spawn(func() {
			if err := s.resumePending(s.jobs.ctx); err != nil && s.jobs.ctx.Err() == nil {
				s.Log.Error("resume open purchases", slog.Any("error", err))
			}
		})
	})
}

func (s *Server) resumePending(ctx context.Context) error {
	b, err := s.Store.Read(ctx)
	if err != nil {
		return err
	}
	open := false
	for _, e := range b.Purchases {
		open = open || e.State == roamcard.Signed && e.Origin == s.origin()
	}
	if !open {
		return nil // the wallet stays closed until it is needed
	}
	client, _, err := s.payer(ctx)
	if err != nil {
		return err
	}
	pending, err := client.Pending(ctx)
	if err != nil {
		return err
	}
	for _, e := range pending {
		if want, ok := purchaseOf(e); ok {
			s.Log.Info("purchase resumed", slog.String("purchaseKey", e.Key), slog.String("operation", e.Operation))
			_, _, _ = s.jobs.start(want, nil) // what cannot start runs already
		}
	}
	return nil
}

// opening is a wallet being opened, once for all calls that wait for it.
type opening struct {
	done   chan struct{}
	signer roamcard.Signer
	err    error
	// client pays by the latest settings; nil until it is needed.
	client *roamcard.Client
}

// buyer is the client of the wallet, which is opened on first use. A person may have to unlock it, so opening continues
// after its caller has gone.
func (s *Server) buyer(ctx context.Context) (*roamcard.Client, string, error) {
	s.mu.Lock()
	o := s.opened
	if o == nil {
		o = &opening{done: make(chan struct{})}
		s.opened = o
		s.jobs.spawn(func() { s.open(s.jobs.ctx, o) })
	}
	s.mu.Unlock()
	select {
	case <-o.done:
		if o.err != nil {
			return nil, "", o.err
		}
		return s.connect(o)
	case <-ctx.Done():
		return nil, "", ctx.Err()
	}
}

func (s *Server) open(ctx context.Context, o *opening) {
	defer close(o.done)
	if o.signer, o.err = s.OpenSigner(ctx); o.err != nil {
		o.signer, o.err = nil, problem("signer_failed", askUser, "The wallet cannot be used: %v", o.err)
	}
	if o.signer == nil { // the next caller tries again
		s.mu.Lock()
		s.opened = nil
		s.mu.Unlock()
	}
}

// connect gives the client of a wallet, and its address. Without a wallet it reads what is public.
func (s *Server) connect(o *opening) (_ *roamcard.Client, wallet string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o.client == nil {
		rules := s.current()
		policy := rules.policy()
		policy.Approve = s.approve
		o.client, err = roamcard.New(roamcard.Config{
			BaseURL: rules.Origin, Signer: o.signer, Policy: policy, Store: s.Store, RPCURL: rules.RPCURL, HTTP: s.HTTP,
			MaxReplays: s.MaxReplays, Timeout: s.Timeout, Logger: s.Log, Now: s.Now,
		})
	}
	if err != nil || o.signer == nil {
		return o.client, "", err
	}
	return o.client, o.signer.Address(), nil
}

// current are the settings as they were read last.
func (s *Server) current() Settings {
	if latest := s.latest.Load(); latest != nil {
		return *latest
	}
	return s.settings
}

// reread applies changes of the settings. The signer, the journal and the origin are fixed for a session. Settings that
// cannot be read allow nothing.
func (s *Server) reread() error {
	if s.Reread == nil {
		return nil
	}
	s.mu.Lock() // also while the file is read: an older reading must not replace a newer one
	defer s.mu.Unlock()
	latest, err := s.Reread()
	if err != nil {
		return problem("settings_unusable", askUser, "Nothing is paid: %v", err)
	}
	before := s.current()
	if reflect.DeepEqual(latest, before) {
		return nil
	}
	if latest.Origin != before.Origin || latest.Journal != before.Journal || !isSame(latest.Signer, before.Signer) {
		return problem("settings_changed", askUser,
			"Nothing is paid: the origin, journal or signer in the settings has changed since this server started. Restart it.")
	}
	s.latest.Store(&latest)
	if s.opened != nil {
		s.opened.client = nil // the next one pays by the new settings
	}
	return nil
}

// isSame compares JSON, however it is written.
func isSame(a, b json.RawMessage) bool {
	var one, other any
	return bytes.Equal(a, b) || json.Unmarshal(a, &one) == nil && json.Unmarshal(b, &other) == nil &&
		reflect.DeepEqual(one, other)
}

// spender is the payer by the settings as they are now. They are read once the wallet is open, which may take a person.
func (s *Server) spender(ctx context.Context) (*roamcard.Client, error) {
	if _, _, err := s.payer(ctx); err != nil {
		return nil, err
	}
	if err := s.reread(); err != nil {
		return nil, err
	}
	client, _, err := s.payer(ctx)
	return client, err
}

// payer is the client, and the address of its wallet.
func (s *Server) payer(ctx context.Context) (*roamcard.Client, string, error) {
	client, wallet, err := s.buyer(ctx)
	if err == nil && wallet == "" {
		err = problem("signer_failed", askUser,
			"There is no wallet. The user names one in the settings, or makes one by `roamcard wallet new`.")
	}
	return client, wallet, err
}

func (s *Server) origin() string { return strings.TrimSuffix(s.settings.Origin, "/") }

// entry is what the journal has under a key for this wallet.
func (s *Server) entry(ctx context.Context, wallet, key string) (found roamcard.Entry, ok bool, err error) {
	b, err := s.Store.Read(ctx)
	if err != nil {
		return roamcard.Entry{}, false, err
	}
	for _, e := range b.Purchases {
		// Two operations under one key: the tools refused the second.
		if e.Key == key && e.Origin == s.origin() && strings.EqualFold(e.Payer, wallet) && (!ok || e.At > found.At) {
			found, ok = e, true
		}
	}
	return found, ok, nil
}
