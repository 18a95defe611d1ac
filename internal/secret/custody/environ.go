package custody

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
)

// usual are the variables that a program needs: to find its files and other programs, to speak the user's language and
// to show a window.
var usual = []string{
	"PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "TERM", "TZ", "LANG", "LANGUAGE", "DISPLAY", "WAYLAND_DISPLAY",
	"XAUTHORITY", "DBUS_SESSION_BUS_ADDRESS", "BROWSER", "DESKTOP_SESSION", "KDE_FULL_SESSION", "KDE_SESSION_VERSION",
	"WSL_DISTRO_NAME", "WSL_INTEROP",
	// Windows
	"SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "COMSPEC", "PATHEXT", "TEMP", "TMP", "APPDATA", "LOCALAPPDATA", "PROGRAMDATA",
	"PROGRAMFILES", "PROGRAMFILES(X86)", "PROGRAMW6432", "USERPROFILE", "USERNAME", "USERDOMAIN", "HOMEDRIVE", "HOMEPATH",
}

// families are those that begin so.
var families = []string{"LC_", "XDG_"}

// Environ is what a program gets of this one's environment: what programs need, and what is named in addition.
func Environ(named ...string) []string {
	given := []string{} // never nil, which would be everything
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		if runtime.GOOS == "windows" { // where a name has no case
			name = strings.ToUpper(name)
		}
		begins := func(family string) bool { return strings.HasPrefix(name, family) }
		if slices.Contains(usual, name) || slices.Contains(named, name) || slices.ContainsFunc(families, begins) {
			given = append(given, variable)
		}
	}
	return given
}

// Command is a program that is started with such an environment. It ends with ctx.
func Command(ctx context.Context, named []string, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = Environ(named...)
	return cmd
}
