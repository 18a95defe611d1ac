package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
)

// member is one server of the database, as Patroni tells.
type member struct{ Name, Role, State string }

// The roles that Patroni tells.
const (
	roleLeader  = "leader"
	roleStandby = "sync_standby"
)

// members asks whichever Patroni answers how the servers stand.
func (c *cluster) members(ctx context.Context) ([]member, error) {
	var errs []error
	for _, n := range c.Nodes {
		var told struct{ Members []member }
		err := ask(ctx, http.MethodGet, "http://"+n.REST+"/cluster", nil, &told)
		if err == nil {
			return told.Members, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// has is the index of the node with a role.
func (c *cluster) has(ctx context.Context, role string) (int, error) {
	all, err := c.members(ctx)
	if err != nil {
		return 0, err
	}
	for _, m := range all {
		for i, n := range c.Nodes {
			if m.Name == n.Name && m.Role == role && (m.State == "running" || m.State == "streaming") {
				return i, nil
			}
		}
	}
	return 0, fmt.Errorf("no server is %s: %v", role, all)
}

// replicated waits until there is a primary, and a standby without which it acknowledges nothing.
func (c *cluster) replicated(ctx context.Context) error {
	for _, role := range []string{roleLeader, roleStandby} {
		err := c.patroni[0].until(ctx, "wait for the "+role, func(ctx context.Context) error {
			_, err := c.has(ctx, role)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// promoted waits until another node than the one before is the primary, and says which.
func (c *cluster) promoted(ctx context.Context, before int) (int, error) {
	now := 0
	err := until(ctx, nil, func(ctx context.Context) (err error) {
		if now, err = c.has(ctx, roleLeader); err == nil && now == before {
			err = fmt.Errorf("%s is still the primary", c.Nodes[before].Name)
		}
		return err
	})
	return now, err
}

// killDatabase ends the PostgreSQL of a node at once, and leaves its Patroni.
func (c *cluster) killDatabase(i int) error {
	text, err := os.ReadFile(filepath.Join(c.Nodes[i].Dir, "data", "postmaster.pid"))
	if err != nil {
		return fmt.Errorf("find the server's process: %w", err)
	}
	first, _, _ := bytes.Cut(text, []byte("\n"))
	pid, err := strconv.Atoi(string(first))
	if err == nil {
		err = crash(pid)
	}
	if err != nil {
		return fmt.Errorf("kill PostgreSQL: %w", err)
	}
	return nil
}

// killMachine ends Patroni and its PostgreSQL at once: nobody gives up the primary's lease.
func (c *cluster) killMachine(i int) error {
	return errors.Join(c.patroni[i].kill(), c.killDatabase(i))
}

// etcdLeader is the index of the member of etcd that leads.
func (c *cluster) etcdLeader(ctx context.Context) (int, error) {
	for i, m := range c.Etcd {
		var status struct {
			Header struct {
				MemberID string `json:"member_id"`
			}
			Leader string
		}
		if err := ask(ctx, http.MethodPost, "http://"+m.Addr+"/v3/maintenance/status", struct{}{}, &status); err != nil {
			return 0, err
		}
		if status.Leader == status.Header.MemberID {
			return i, nil
		}
	}
	return 0, errors.New("no member of etcd leads")
}

// chainAnswers succeeds when the chain does.
func (c *cluster) chainAnswers(ctx context.Context) error {
	var told struct{ Result string }
	call := map[string]any{"jsonrpc": "2.0", "id": 1, "method": "eth_chainId", "params": []any{}}
	if err := ask(ctx, http.MethodPost, c.RPCURL(), call, &told); err != nil {
		return err
	}
	if told.Result == "" {
		return errors.New("the chain does not tell its id")
	}
	return nil
}

// ask makes a request with JSON and reads the JSON of its answer.
func ask(ctx context.Context, method, url string, send, into any) error {
	body, err := json.Marshal(send)
	if err != nil {
		return fmt.Errorf("encode the request: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("make the request: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := local.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, res.Status)
	}
	if err := json.NewDecoder(res.Body).Decode(into); err != nil {
		return fmt.Errorf("read the answer of %s: %w", url, err)
	}
	return nil
}
