#include "vmm/sys/sandbox.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <string>
#include <vector>

#include "vmm/sys/fd.h"

namespace turnbox::sys {
namespace {

Status write_map(const char* path, const std::string& text) {
  TRY_ASSIGN(Fd fd, open_fd(path, O_WRONLY));
  return write_full(fd.get(), std::as_bytes(std::span(text)));
}

// A user namespace in which the caller's own id is the only one.
Status own_user_namespace() {
  const uid_t uid = ::geteuid();
  const gid_t gid = ::getegid();
  if (::unshare(CLONE_NEWUSER) < 0) return fail_errno("cannot make a user namespace");
  TRY(write_map("/proc/self/setgroups", "deny"));
  TRY(write_map("/proc/self/uid_map", std::to_string(uid) + " " + std::to_string(uid) + " 1\n"));
  return write_map("/proc/self/gid_map", std::to_string(gid) + " " + std::to_string(gid) + " 1\n");
}

Status empty_root() {
  if (::unshare(CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS) < 0) {
    return fail_errno("cannot make namespaces");
  }
  constexpr unsigned long kFlags = MS_NOSUID | MS_NODEV | MS_NOEXEC;
  // /proc is a mount point on every Linux and needs no write access to any directory.
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) < 0 ||
      ::mount("turnbox", "/proc", "tmpfs", kFlags, "size=4k,nr_inodes=2,mode=0555") < 0 ||
      ::mount(nullptr, "/proc", nullptr, MS_REMOUNT | MS_RDONLY | kFlags, "size=4k,nr_inodes=2,mode=0555") <
          0 ||
      ::chdir("/proc") < 0 || ::syscall(SYS_pivot_root, ".", ".") < 0 || ::umount2(".", MNT_DETACH) < 0 ||
      ::chdir("/") < 0) {
    return fail_errno("cannot take an empty root");
  }
  return {};
}

Status drop_ids(const Confine& what) {
  if (::setgroups(0, nullptr) < 0 || ::setresgid(what.gid, what.gid, what.gid) < 0 ||
      ::setresuid(what.uid, what.uid, what.uid) < 0) {
    return fail_errno("cannot change to the process's own user");
  }
  return {};
}

// Before the ids change, since it needs CAP_SETPCAP. Without that capability there is nothing in the set to
// lose: no-new-privileges keeps exec from ever using it.
Status drop_bounding_set() {
  for (int cap = 0; ::prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; ++cap) {
    if (::prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0 && errno != EPERM) {
      return fail_errno("cannot drop a capability");
    }
  }
  return {};
}

Status no_way_back() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct none[2]{};
  if (::syscall(SYS_capset, &header, none) < 0) return fail_errno("cannot drop capabilities");
  (void)::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  const rlimit no_core{0, 0};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ||
      ::setrlimit(RLIMIT_CORE, &no_core) < 0) {
    return fail_errno("cannot give up privileges");
  }
  return {};
}

// What a device process never calls. A deny list, since libraries and sanitizers differ in what they need;
// with an empty root, no capabilities and no network the list closes what is left of the kernel's wide doors.
// Threads may still be made (the hasher), processes and namespaces not: clone3 hides its flags in memory, so
// it is said not to exist, and glibc falls back to clone.
Status few_calls() {
  // clang-format off
  static constexpr int kDenied[] = {
      SYS_socket, SYS_connect, SYS_bind, SYS_listen, SYS_execve, SYS_execveat, SYS_fork, SYS_vfork,
      SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev, SYS_process_madvise, SYS_kcmp, SYS_pidfd_open,
      SYS_pidfd_getfd, SYS_pidfd_send_signal, SYS_perf_event_open, SYS_bpf, SYS_userfaultfd,
      SYS_mount, SYS_umount2, SYS_pivot_root, SYS_chroot, SYS_open_tree, SYS_move_mount, SYS_fsopen, SYS_fsmount,
      SYS_fsconfig, SYS_fspick, SYS_mount_setattr, SYS_unshare, SYS_setns,
      SYS_keyctl, SYS_add_key, SYS_request_key, SYS_open_by_handle_at, SYS_name_to_handle_at, SYS_fanotify_init,
      SYS_init_module, SYS_finit_module, SYS_delete_module, SYS_kexec_load, SYS_kexec_file_load, SYS_reboot,
      SYS_swapon, SYS_swapoff, SYS_acct, SYS_quotactl, SYS_iopl, SYS_ioperm, SYS_personality, SYS_syslog,
      SYS_clock_settime, SYS_settimeofday, SYS_adjtimex, SYS_clock_adjtime, SYS_sethostname, SYS_setdomainname,
      SYS_vhangup, SYS_uselib, SYS_lookup_dcookie, SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register,
  };
  // clang-format on
  constexpr unsigned kNamespaces = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC |
                                   CLONE_NEWUTS | CLONE_NEWCGROUP;
  std::vector<sock_filter> filter;
  filter.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch)));
  filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0));
  filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
  filter.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)));
  filter.push_back(BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000U, 0, 1));  // the x32 table
  filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
  for (const int call : kDenied) {
    filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(call), 0, 1));
    filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM));
  }
  filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1));
  filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS));
  filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 4));
  filter.push_back(
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[0])));  // low half: the flags
  filter.push_back(BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, kNamespaces, 1, 0));
  filter.push_back(BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 1, 0));
  filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM));
  filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
  if (::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) < 0)
    return fail_errno("cannot set a seccomp filter");
  return {};
}

}  // namespace

#ifdef __SANITIZE_ADDRESS__
// The leak check stops its threads with ptrace from a cloned process: both are given up below, so it would
// only fail.
extern "C" const char* __asan_default_options();
extern "C" const char* __asan_default_options() {
  return "detect_leaks=0";
}
#endif

Result<Confinement> confine(const Confine& what) {
  Confinement reached;
  const bool root = ::geteuid() == 0;
  const pid_t parent = ::getppid();
  int death_signal = 0;
  if (::prctl(PR_GET_PDEATHSIG, &death_signal, 0, 0, 0) < 0)
    return fail_errno("cannot read the parent-death signal");
  if (root) {
    // The root is changed before the ids, since that needs CAP_SYS_ADMIN.
    TRY(empty_root());
    reached.empty_root = true;
    TRY(drop_bounding_set());
    if (what.uid != 0) {
      TRY(drop_ids(what));
      reached.own_user = true;
    }
  } else if (own_user_namespace() && empty_root()) {
    reached.empty_root = true;
    TRY(drop_bounding_set());
  }
  TRY(no_way_back());
  // A change of credentials clears it (prctl(2)), and the parent may have died in between.
  if (::prctl(PR_SET_PDEATHSIG, death_signal, 0, 0, 0) < 0)
    return fail_errno("cannot set the parent-death signal");
  if (death_signal != 0 && ::getppid() != parent) {
    return fail(ErrorKind::unavailable, "the process that started this one is gone");
  }
  TRY(few_calls());
  return reached;
}

}  // namespace turnbox::sys
