package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// connectTimeout is used where the URL has none.
	connectTimeout = 5 * time.Second
	// queryModeParameter is pgx's name of the query mode in a URL.
	queryModeParameter = "default_query_exec_mode"
)

// queryModes are the query modes that every statement of this package works in. The others of pgx send arguments as
// text without knowing the types of the parameters, or ask for them before each statement.
var queryModes = map[string]pgx.QueryExecMode{
	"cache_statement": pgx.QueryExecModeCacheStatement, "cache_describe": pgx.QueryExecModeCacheDescribe,
}

// QueryModes are the query modes. The first one names prepared statements, which belong to a server's session and so
// fail behind a pooler that shares sessions and does not follow them. The second one names none.
func QueryModes() []string { return []string{"cache_statement", "cache_describe"} }

// CheckURL reports whether a connection string can be read, without connecting.
func CheckURL(url string) error {
	_, err := pgxpool.ParseConfig(url)
	return err
}

// Unverified are the hosts that a connection string reaches without TLS, or without a look at their certificates: also
// where it does so only after the server has declined. A socket of this machine is none. Nil when it cannot be read.
func Unverified(url string) (hosts []string) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil
	}
	first := &pgconn.FallbackConfig{
		Host: config.ConnConfig.Host, Port: config.ConnConfig.Port, TLSConfig: config.ConnConfig.TLSConfig,
	}
	for _, way := range append([]*pgconn.FallbackConfig{first}, config.ConnConfig.Fallbacks...) {
		// verify-ca looks at the certificate by a function of pgx.
		verified := way.TLSConfig != nil && (!way.TLSConfig.InsecureSkipVerify || way.TLSConfig.VerifyPeerCertificate != nil)
		network, _ := pgconn.NetworkAddress(way.Host, way.Port)
		if !verified && network != "unix" && !slices.Contains(hosts, way.Host) {
			hosts = append(hosts, way.Host)
		}
	}
	return hosts
}

// UserOf is the role as whom a connection string connects.
func UserOf(url string) (string, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return "", errors.New("read database URL") // the parser's own words may quote the password
	}
	return config.ConnConfig.User, nil
}

// QueryModeOf is the query mode that a connection string names; empty when it names none.
func QueryModeOf(url string) string {
	config, err := pgxpool.ParseConfig(url)
	if err != nil || !strings.Contains(url, queryModeParameter) {
		return ""
	}
	return modeName(config.ConnConfig.DefaultQueryExecMode)
}

// QueryMode is the query mode of the pool.
func (s *Store) QueryMode() string { return modeName(s.pool.Config().ConnConfig.DefaultQueryExecMode) }

// modeName is how a URL names a query mode.
func modeName(mode pgx.QueryExecMode) string { return strings.ReplaceAll(mode.String(), " ", "_") }

func (c Config) poolConfig() (*pgxpool.Config, error) {
	config, err := pgxpool.ParseConfig(c.URL)
	if err != nil {
		return nil, fmt.Errorf("read database URL: %w", err)
	}
	if c.MaxConns > 0 {
		config.MaxConns = int32(min(c.MaxConns, 10_000))
	}
	if c.QueryMode != "" {
		mode, ok := queryModes[c.QueryMode]
		if !ok {
			return nil, fmt.Errorf("query mode %q is none of %s", c.QueryMode, strings.Join(QueryModes(), ", "))
		}
		config.ConnConfig.DefaultQueryExecMode = mode
	}
	config.ConnConfig.ConnectTimeout = cmp.Or(config.ConnConfig.ConnectTimeout, connectTimeout)
	config.ConnConfig.RuntimeParams["application_name"] = "roamcard"
	config.ConnConfig.Tracer = c.Tracer
	c.dialBy(config.ConnConfig)
	config.AfterConnect = func(_ context.Context, conn *pgx.Conn) error {
		readTimesInUTC(conn.TypeMap())
		return nil
	}
	return config, nil
}

func (c Config) listenConfig() (*pgx.ConnConfig, error) {
	config, err := pgxpool.ParseConfig(cmp.Or(c.ListenURL, c.URL)) // it takes the pool's parameters out
	if err != nil {
		return nil, fmt.Errorf("read the URL to listen at: %w", err)
	}
	config.ConnConfig.ConnectTimeout = cmp.Or(config.ConnConfig.ConnectTimeout, connectTimeout)
	c.dialBy(config.ConnConfig)
	return config.ConnConfig, nil
}

func (c Config) dialBy(config *pgx.ConnConfig) {
	if c.Dial != nil {
		config.DialFunc = c.Dial
	}
}
