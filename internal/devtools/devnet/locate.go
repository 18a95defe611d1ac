package devnet

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// FindAnvil returns the anvil to run: ROAMCARD_ANVIL, or the first in PATH, or the npm package under tools/ in the
// working directory, the executable's, or any folder above either.
func FindAnvil() (string, error) {
	if path := os.Getenv("ROAMCARD_ANVIL"); path != "" {
		if _, err := exec.LookPath(path); err != nil {
			return "", fmt.Errorf("ROAMCARD_ANVIL: %w", err)
		}
		return path, nil
	}
	if path, err := exec.LookPath("anvil"); err == nil {
		return path, nil
	}
	platform := npmPlatform(map[string]string{"windows": "win32"}, nil)
	for _, modules := range npmModules() {
		path := filepath.Join(modules, "@foundry-rs", "anvil-"+platform, "bin", "anvil")
		if runtime.GOOS == "windows" {
			path += ".exe"
		}
		if _, err := exec.LookPath(path); err == nil {
			return path, nil
		}
	}
	return "",
		errors.New("find anvil: not in PATH nor in tools/node_modules; run `make setup`, or set ROAMCARD_ANVIL to its path")
}

// npmModules lists the tools/node_modules folders that exist at or above the working directory and the executable.
func npmModules() []string {
	var starts, found []string
	if dir, err := os.Getwd(); err == nil {
		starts = append(starts, dir)
	}
	if exe, err := os.Executable(); err == nil {
		if real, err := filepath.EvalSymlinks(exe); err == nil {
			exe = real
		}
		starts = append(starts, filepath.Dir(exe))
	}
	for _, dir := range starts {
		for {
			modules := filepath.Join(dir, "tools", "node_modules")
			if info, err := os.Stat(modules); err == nil && info.IsDir() {
				found = append(found, modules)
			}
			up := filepath.Dir(dir)
			if up == dir {
				break
			}
			dir = up
		}
	}
	return found
}

// npmPlatform names this machine as a package does, which renames some systems and architectures.
func npmPlatform(system, arch map[string]string) string {
	name := func(names map[string]string, ours string) string {
		if other, ok := names[ours]; ok {
			return other
		}
		return ours
	}
	return name(system, runtime.GOOS) + "-" + name(arch, runtime.GOARCH)
}
