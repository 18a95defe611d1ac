package devnet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"
)

const (
	stateFile    = "state.json"      // anvil's own, rewritten in place every second
	goodCopyFile = "state.good.json" // the last whole one we saw
	lockFile     = "chain.lock"

	goodCopyEvery = 15 * time.Second
	lockTimeout   = 10 * time.Second
)

// lockChain makes dir and takes its lock, waiting for a chain that is still writing its state after its parent died.
func lockChain(ctx context.Context, dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make chain folder: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		lock, err := tryLock(filepath.Join(dir, lockFile))
		if lock != nil || err != nil {
			return lock, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("start development chain: another anvil is using %s: stop it or use another folder", dir)
		case <-tick.C:
		}
	}
}

// stateKeeper keeps a whole copy of a state file that anvil rewrites in place: a machine that dies during such a write
// leaves a torn file, from which anvil refuses to start.
type stateKeeper struct {
	state, good string
	log         *slog.Logger
	copied      time.Time // the state's modification time at the last copy

	stop  chan struct{}
	end   sync.Once
	ended sync.WaitGroup
}

// newStateKeeper leaves a state file in dir that anvil can load, or none.
func newStateKeeper(dir string, log *slog.Logger) (*stateKeeper, error) {
	k := &stateKeeper{
		state: filepath.Join(dir, stateFile), good: filepath.Join(dir, goodCopyFile),
		log: log, stop: make(chan struct{}),
	}
	err := k.copyIfWhole()
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return k, nil
	}
	if !errors.Is(err, errTorn) {
		return nil, fmt.Errorf("keep chain state: %w", err)
	}
	err = os.Rename(k.good, k.state)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		log.Warn("chain state was torn and has no copy; the chain starts anew", slog.String("file", k.state))
		err = os.Rename(k.state, k.state+".torn")
	case err == nil:
		log.Warn("chain state was torn; the chain goes back to its last whole copy", slog.String("file", k.state))
	}
	if err != nil {
		return nil, fmt.Errorf("repair chain state: %w", err)
	}
	return k, nil
}

func (k *stateKeeper) run() {
	k.ended.Go(func() {
		tick := time.NewTicker(goodCopyEvery)
		defer tick.Stop()
		for {
			select {
			case <-k.stop:
				return
			case <-tick.C:
			}
			// A torn file is anvil in the middle of a write: the next tick sees a whole one.
			if err := k.copyIfWhole(); err != nil && !errors.Is(err, errTorn) && !errors.Is(err, fs.ErrNotExist) {
				k.log.Warn("copy chain state", slog.Any("error", err))
			}
		}
	})
}

func (k *stateKeeper) close() {
	k.end.Do(func() { close(k.stop) })
	k.ended.Wait()
}

var errTorn = errors.New("state file is not whole")

func (k *stateKeeper) copyIfWhole() error {
	info, err := os.Stat(k.state)
	if err != nil {
		return err
	}
	if info.ModTime().Equal(k.copied) {
		return nil
	}
	state, err := os.ReadFile(k.state)
	if err != nil {
		return err
	}
	if !json.Valid(state) {
		return errTorn
	}
	if err := os.WriteFile(k.good+".new", state, 0o644); err != nil {
		return err
	}
	if err := os.Rename(k.good+".new", k.good); err != nil {
		return err
	}
	k.copied = info.ModTime()
	return nil
}
