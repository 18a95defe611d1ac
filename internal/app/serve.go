package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/roamcard/roamcard/gen"
	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/store"
	"github.com/roamcard/roamcard/internal/telemetry"
)

// ServeConfig configures a deployed service.
type ServeConfig struct {
	// File is a YAML file with settings; empty reads only the environment.
	File string
	// NoWorker runs the server only, NoServer the worker only.
	NoWorker, NoServer bool
	LogTo              io.Writer
}

// Serve runs the service until ctx ends. It does not start with an incomplete configuration, and reports all mistakes.
func Serve(ctx context.Context, s ServeConfig) (err error) {
	defer func() { err = secret.MaskError(err) }()
	cfg, err := LoadFile(s.File)
	if err != nil {
		return fmt.Errorf("configuration:\n%w", err)
	}
	cfg.NoWorker, cfg.NoServer = s.NoWorker, s.NoServer
	log := telemetry.NewLogger(s.LogTo, cfg.LogLevel, cfg.LogJSON)
	cfg.limitMemory(log)
	out, err := telemetry.Start(ctx, "roamcard", Version, cfg.rule())
	if err != nil {
		return fmt.Errorf("start telemetry: %w", err)
	}
	stop := func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if err := out.Stop(ctx); err != nil { // the collector's fault: what was to be done is done
			log.Warn("telemetry not sent", "error", err)
		}
	}
	a, err := New(ctx, cfg, Options{Log: out.Logger(log), Telemetry: out})
	if err != nil {
		stop()
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	defer stop() // before the database is closed, which the last gauges are read from
	log = out.Logger(log)
	if len(cfg.PlaintextHosts) > 0 {
		log.Warn("hosts may be reached without TLS", "hosts", cfg.PlaintextHosts)
	}
	log.Info("routing", "rules", cfg.RoutingInEffect())
	log.Info("serving", "addr", cfg.Addr, "version", Version, "commit", BuiltFrom())
	return a.Run(ctx)
}

// refusePublicPayee rejects, in production, to be paid to an account of the development chain, whose keys everybody
// knows. openKeys rejects the keys themselves.
func (c Config) refusePublicPayee() error {
	if c.Environment != Production || !publicAccounts()[c.PayTo] {
		return nil
	}
	return errors.New("payment.pay_to: the key of this address is a public development key")
}

// LoadFile reads the configuration from a YAML file and the environment.
func LoadFile(path string) (Config, error) {
	file, err := readFile(path)
	if err != nil {
		return Config{}, err
	}
	c, err := Load(file, os.LookupEnv, readValue)
	unknown := Modules{}.unknownVariables(os.Environ(), c.referredVariables())
	return c, secret.MaskError(errors.Join(err, errors.Join(c.unusable()...), errors.Join(unknown...)))
}

// readFile reads the settings of a YAML file by their dotted names. Without a path there are none.
func readFile(path string) (map[string]string, error) {
	file := map[string]string{}
	if path == "" {
		return file, nil
	}
	b, of, err := readWhole(path, nil)
	if err != nil {
		return nil, fmt.Errorf("read the configuration file: %w", err)
	}
	var tree map[string]any
	if err := yaml.Unmarshal(b, &tree); err != nil {
		return nil, fmt.Errorf("read %s: %s", filepath.Base(path), quoted.ReplaceAllString(err.Error(), secret.Redacted))
	}
	flatten("", tree, file)
	return file, of.checkPrivate(file)
}

// quoted are the values that errors of YAML quote.
var quoted = regexp.MustCompile("(?s)['`\"].*['`\"]")

// flatten turns nested YAML into dotted names.
func flatten(prefix string, tree map[string]any, into map[string]string) {
	for key, value := range tree {
		if inner, ok := value.(map[string]any); ok {
			flatten(prefix+key+".", inner, into)
			continue
		}
		into[prefix+key] = fmt.Sprint(value)
	}
}

// Migrate migrates the configured database, and returns the number of migrations applied.
func Migrate(ctx context.Context, file string, logTo io.Writer) (int, error) {
	// It needs only the database, so the other settings may be missing.
	cfg, err := LoadFile(file)
	if err := cfg.databaseUsable(err); err != nil {
		return 0, err
	}
	return cfg.migrate(ctx, telemetry.NewLogger(logTo, slog.LevelInfo, false))
}

// databaseUsable is what keeps a command from the database alone, of all that is wrong with the configuration.
func (c Config) databaseUsable(wrong error) error {
	if !c.DatabaseURL.IsZero() {
		wrong = errors.Join(c.databaseWayMistakes()...)
	}
	if wrong != nil {
		return fmt.Errorf("configuration:\n%w", wrong)
	}
	return nil
}

// ErrNotReady says that the service is not ready to run.
var ErrNotReady = errors.New("not ready")

// MigrationStatus is ErrNotReady while the database lacks a migration of this program.
func MigrationStatus(ctx context.Context, file string) error {
	cfg, err := LoadFile(file)
	if err := cfg.databaseUsable(err); err != nil {
		return err
	}
	s, err := store.Open(ctx, cfg.StoreConfig())
	if err != nil {
		return err
	}
	defer s.Close()
	err = s.CheckSchema(ctx)
	if errors.Is(err, store.ErrSchemaBehind) {
		return fmt.Errorf("%w: %w; run roamcard migrate", ErrNotReady, err)
	}
	return err
}

// OpenAPI is the description of the REST routes. Its server is relative.
func OpenAPI() []byte { return gen.OpenAPI }
