// Keeps what belongs to a wallet from the other users of its machine, and from the programs that its own user starts.
// The clients of all languages check alike, and say it in the same words. Windows has no such modes, and a user's
// folders are the user's there: nothing is checked.
import {
  closeSync, constants, fstatSync, lstatSync, mkdirSync, openSync, readFileSync, readlinkSync, realpathSync, type Stats,
} from "node:fs";
import { dirname, isAbsolute, join, resolve, sep } from "node:path";

/** A file or a folder that other users can change, or read where it holds a secret. */
export class ExposedError extends Error {}

/** What others must not be allowed by the mode of a file that decides what is paid. */
export const noWriters = 0o022;
/** The same of a secret that may be mounted: a volume of Kubernetes gives its files to a group. */
export const groupReaders = 0o027;

const user = process.geteuid?.();

/** Refuses a folder that others may write, or put another one in the place of. */
export function checkFolder(path: string): void {
  if (user === undefined) return;
  const real = resolved(path);
  const info = lstatSync(real);
  refuseFolder(real, info, false);
}

/**
 * Makes a folder, and those above it that are missing, for this user alone. One that is there is checked as by
 * checkFolder; below one that others may write none is made.
 */
export function makeFolder(path: string): void {
  resolved(path);
  mkdirSync(path, { recursive: true, mode: 0o700 });
  checkFolder(path);
}

/**
 * Reads a file, unless its mode allows others what they are denied, or others may put another one in its place. Owner
 * and mode are those of what was opened, not of a path that may change meanwhile.
 */
export function readOwn(path: string, denied: number): string {
  return readIn(resolved(path), denied);
}

/** Reads a file of a folder that was checked. A link is not followed. */
export function readIn(path: string, denied: number): string {
  const file = openIn(path, denied);
  try {
    return readFileSync(file, "utf8");
  } finally {
    closeSync(file);
  }
}

/** Opens a file of a folder that was checked. A link is not followed. */
export function openIn(path: string, denied: number): number {
  let file: number;
  try {
    // Nor is the other end of a pipe waited for.
    file = openSync(path, constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0));
  } catch (error) {
    if (!lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink()) throw error;
    throw new ExposedError(`the file ${path} is a link; name the file that it leads to`);
  }
  try {
    if (user !== undefined) refuseFile(path, fstatSync(file), denied);
    return file;
  } catch (error) {
    closeSync(file);
    throw error;
  }
}

const maxLinks = 40;

// resolved gives a path without links. Every folder on the way is this user's or root's, and others cannot write it, or
// its sticky bit keeps them from what is not theirs; every link is this user's or root's. The way begins at the user's
// home where it leads through it, for what is above that is the system's. What is missing is not checked.
function resolved(path: string): string {
  path = resolve(path);
  if (user === undefined) return path;
  let [at, left] = begin(path);
  for (let links = 0; left.length > 0; ) {
    const [name, ...rest] = left as [string, ...string[]];
    left = rest;
    if (name === "" || name === ".") continue;
    if (name === "..") {
      at = dirname(at);
      continue;
    }
    refuseFolder(at, lstatSync(at), true);
    const next = join(at, name);
    const info = lstatSync(next, { throwIfNoEntry: false });
    if (!info) return join(next, ...left);
    if (!info.isSymbolicLink()) {
      at = next;
      continue;
    }
    if (++links > maxLinks) throw Object.assign(new Error(`${path} has too many links`), { code: "ELOOP" });
    refuseOwner("link", next, info);
    const target = readlinkSync(next);
    let more = target.split(sep);
    if (isAbsolute(target)) [at, more] = begin(target);
    left = [...more, ...left];
  }
  return at;
}

// begin is where the way of an absolute path begins, and the names on it.
function begin(path: string): [at: string, names: string[]] {
  const home = process.env.HOME;
  const below = home && isAbsolute(home) && `${path}${sep}`.startsWith(`${resolve(home)}${sep}`);
  try {
    if (below) return [realpathSync(home), path.slice(resolve(home).length).split(sep)];
  } catch {
    // There is no such home.
  }
  return [sep, path.split(sep)];
}

// A folder that is only passed may be written by others where its sticky bit keeps them from what is not theirs.
function refuseFolder(path: string, info: Stats, passed: boolean): void {
  if (!info.isDirectory()) throw Object.assign(new Error(`${path} is no folder`), { code: "ENOTDIR" });
  refuseOwner("folder", path, info);
  if ((info.mode & noWriters) === 0 || (passed && (info.mode & 0o1000) !== 0)) return;
  throw new ExposedError(
    `others may write the folder ${path}, whose mode is ${octal(info)}; \`chmod go-w ${path}\`, or name another one`,
  );
}

function refuseFile(path: string, info: Stats, denied: number): void {
  if (!info.isFile()) throw Object.assign(new Error(`${path} is no file`), { code: "EINVAL" });
  refuseOwner("file", path, info);
  if ((info.mode & denied) === 0) return;
  const [may, change] = (denied & ~noWriters) === 0 ? ["write", "go-w"] : ["use", "600"];
  const told = `others may ${may} the file ${path}, whose mode is ${octal(info)}; \`chmod ${change} ${path}\``;
  throw new ExposedError(`${told}, and look whether it still says what you wrote`);
}

// Root can do everything anyway.
function refuseOwner(kind: string, path: string, { uid }: Stats): void {
  if (uid === 0 || uid === user) return;
  throw new ExposedError(`the ${kind} ${path} is that of user ${uid}, and this is user ${user}; name one of your own`);
}

function octal({ mode }: Stats): string {
  return (mode & 0o7777).toString(8).padStart(4, "0");
}

// What a program needs: to find its files and other programs, to speak the user's language and to show a window.
const usual = new Set([
  "PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "TERM", "TZ", "LANG", "LANGUAGE", "DISPLAY", "WAYLAND_DISPLAY",
  "XAUTHORITY", "DBUS_SESSION_BUS_ADDRESS", "BROWSER", "DESKTOP_SESSION", "KDE_FULL_SESSION", "KDE_SESSION_VERSION",
  "WSL_DISTRO_NAME", "WSL_INTEROP",
  // Windows
  "SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "COMSPEC", "PATHEXT", "TEMP", "TMP", "APPDATA", "LOCALAPPDATA", "PROGRAMDATA",
  "PROGRAMFILES", "PROGRAMFILES(X86)", "PROGRAMW6432", "USERPROFILE", "USERNAME", "USERDOMAIN", "HOMEDRIVE", "HOMEPATH",
]);

/** What a program gets of this one's environment: what programs need, and what is named in addition. */
export function programEnvironment(named: readonly string[] = []): NodeJS.ProcessEnv {
  const given = Object.entries(process.env).filter(([variable]) => {
    const name = process.platform === "win32" ? variable.toUpperCase() : variable; // names have no case there
    return usual.has(name) || named.includes(name) || /^(?:LC|XDG)_/.test(name);
  });
  return Object.fromEntries(given);
}
