package main

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// jiffy is the unit of times in /proc/PID/stat, the same on every architecture of Linux that Go has.
const jiffy = 10 * time.Millisecond

// process is what /proc says of one.
type process struct {
	parent int
	// had is its time and that of its children that have ended and were waited for.
	had time.Duration
}

type table map[int]process

// adoptOrphans makes this process the parent of those whose parent has ended, so that they stay under it.
func adoptOrphans() {
	const subreaper = 36 // PR_SET_CHILD_SUBREAPER of prctl(2)
	// Without it their time is missing, which is no reason to fail.
	_, _, _ = syscall.Syscall(syscall.SYS_PRCTL, subreaper, 1, 0)
}

func processes() table {
	all := table{}
	proc, err := os.Open("/proc")
	if err != nil {
		return all
	}
	defer proc.Close()
	names, _ := proc.Readdirnames(-1) // those that it has read
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue // no process
		}
		stat, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			continue // it has ended
		}
		// After the name, which may contain anything: state, parent, …, and from the twelfth on the times.
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if len(fields) < 15 {
			continue
		}
		parent, _ := strconv.Atoi(fields[1]) // the kernel writes numbers
		p := process{parent: parent}
		for _, field := range fields[11:15] {
			n, _ := strconv.ParseInt(field, 10, 64) // the kernel writes numbers
			p.had += time.Duration(n) * jiffy
		}
		all[pid] = p
	}
	return all
}

// under is what a process and all below it have had.
func (all table) under(pid int) time.Duration {
	var sum time.Duration
	for one := range all {
		for at := one; at > 1; at = all[at].parent {
			if at == pid {
				sum += all[one].had
				break
			}
		}
	}
	return sum
}

// testBinaries are the tests of packages that run under a process, with their folders.
func testBinaries(all table, root int) map[int]string {
	found := map[int]string{}
	for pid, p := range all {
		if p.parent != root {
			continue
		}
		program, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/exe")
		if err != nil || !strings.HasSuffix(strings.TrimSuffix(program, " (deleted)"), ".test") {
			continue
		}
		if dir, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/cwd"); err == nil {
			found[pid] = dir
		}
	}
	return found
}
