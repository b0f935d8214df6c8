// SPDX-License-Identifier: MIT
// What the page says, in each language that it can speak, and how it writes figures. What the server says (refusals,
// reasons, events) is the program's own text, in English, and is shown as such.

const en = {
  language: "English",
  title: "tenure",
  skip: "Skip to the GPUs",
  menu: "Page",
  theme: "Colours", theme_auto: "As the system", theme_light: "Light", theme_dark: "Dark",
  switch_language: "Language",
  help: "Keys", refresh: "Refresh", submit: "Submit a task", close: "Close", cancel: "Cancel",
  read_only: "Read only",
  starting: "One moment", live: "Live", old: "Not connected", late: "Not up to date",
  late_since: "Not all of this is new: {why}. Some of it is from {time}, {ago} ago. Trying again.",
  old_since: "Not connected: {why}. What is shown is from {time}, {ago} ago.",
  never_seen: "Not connected: {why}.",
  again_in: "Trying again in {s} s.", again_now: "Try now", again: "Trying again.",
  no_answer: "tenure serve does not answer",
  agent_gone: "The agent of this node is not there: {why}. Its GPUs are shown as of {time}, {ago} ago.",
  agent_none: "The agent of this node is not there: {why}.",
  queue_trouble: "The queue cannot be read: {why}. What is shown of it may be old.",
  back: "Connected again.", lost: "Not connected any more.",

  signin: "Who are you?",
  signin_how: "The address that `tenure web` prints has a token in it, and opens this page. It can also be typed in here.",
  token: "Token", signin_go: "Go in", token_form: "A token is 64 digits and letters from a to f.",

  gpus: "GPUs", no_gpus: "No GPU is known here.", gpu: "GPU {n}", mig: "GPU {n}, instance {m}",
  held: "held", task: "task", foreign: "others", idle: "idle", left: "left", fault: "fault", blind: "unseen", gap: "no record",
  count_held: "held for you", count_task: "run tasks", count_foreign: "used by others", count_idle: "idle", count_left: "left for others",
  count_fault: "with a fault", count_blind: "not seen",
  letter_held: "H", letter_task: "T", letter_foreign: "O", letter_idle: "I", letter_left: "L", letter_fault: "X", letter_blind: "?",
  for_time: "for {t}", hold_in: "is held in {t}", nobody: "nobody uses it",
  held_as: "{held} GiB held, gone as soon as somebody comes",
  held_for_task: "for task {n}, which waits for more", left_for_others: "left for others; never held",
  untouched: "held for it until it uses the GPU", gpu_on: "{gpu} on {node}",
  yielding: "is being let go for a newcomer",
  memory: "Memory", utilisation: "Use", memory_of: "{used} / {total} GiB", watts: "{n} / {max} W",
  per_cent: "{n} %", unknown: "unknown", band: "our load keeps it between {a} and {b} %",
  strip_of: "Last 24 hours of {gpu}", strip_sum: "{gpu}, last 24 hours: {parts}.", strip_yields: "{n} yields",
  strip_point: "{from} to {to}: {state}", strip_util: "use {n} %", strip_power: "{n} W", strip_task: "task {n}",
  strip_yield: "yielded to {who} at {time}, free after {ms} ms",
  legend: "What the strips show", legend_yield: "yielded",
  gpus_of: "GPUs of {node}", node_here: "{node}, this node", as_of: "as of {t} ago", silent: "silent", quarantined: "in quarantine: no task comes to it",
  legend_use: "line: use", now: "now", loading: "One moment: the last 24 hours are being asked for.", no_history: "The last 24 hours are not known: {why}.",

  queue: "Queue", running: "Running", waiting: "Waiting", ended: "Ended",
  filter: "Name begins with", filter_lane: "Lane", all_lanes: "all lanes",
  none_running: "Nothing runs.", none_waiting: "Nothing waits.", none_ended: "Nothing has ended yet.", none_match: "Nothing matches.",
  not_read: "The queue has not been read yet.",
  c_task: "Task", c_lane: "Lane", c_gpus: "GPUs", c_time: "Time", c_why: "Why it waits", c_when: "Starts", c_result: "Result", c_ended: "Ended",
  c_node: "Node", c_actions: "Actions", c_priority: "Priority",
  all: "all", on_gpus: "on {list}", of_limit: "{t} of {max}", no_limit: "{t}", elements: "{n} elements",
  n_gpus: "{n} GPUs", no_gpu: "none", gpu_list: "GPU {list}",
  batch_running: "{n} run", batch_waiting: "{n} wait", batch_done: "{n} done", batch_failed: "{n} failed", batch_cancelled: "{n} stopped",
  priority_n: "priority {n}", attempt_n: "attempt {n}",
  paused: "paused", lane_paused: "its lane is paused", not_before: "not before {time}",
  when_range: "in {a} to {b}", when_within: "within {b}", when_least: "in {a} or later", when_unknown: "not known", when_after: "not known: after task {n}", when_many: "after many others",
  when_soon: "now",
  ending_since: "ending since {time}",
  runs: "running", done: "done", failed: "failed", cancelled: "stopped", pending: "waiting", exit_n: "exit {n}", signal_n: "signal {n}",
  log: "Log", stop: "Stop", details: "Details", page_next: "Next", page_previous: "Previous", page_first: "From the start", page_at: "{a} to {b} of {n}", more_ended: "More",
  of_task: "{what} of task {n}",

  yields: "Yields", no_yields: "Nothing was yielded in the last 24 hours.", c_when_was: "When", c_to: "To", c_freed: "Freed", c_latency: "How fast",
  latency: "seen after {a} ms, free {b} ms later", latency_free: "free {b} ms after it was seen", ms: "{n} ms", somebody: "somebody (only memory showed)",
  key_seen: "until it was seen", key_freed: "until its memory was free",
  last_yield: "Last yield: {gpu} to {who}, {ago} ago, free after {ms} ms.", never_yielded: "Nothing was yielded in the last 24 hours.",
  events: "Events", no_events: "Nothing has happened yet.", error: "error", warning: "warning",

  nodes: "Nodes", no_nodes: "No node serves this queue.", c_state: "State", c_deadline: "Ends", c_heard: "Heard", c_job: "Job",
  alive: "alive", gone: "gone", off: "off", here: "this one", draining: "draining", never: "no deadline", in_time: "in {t}", passed: "over", ago: "{t} ago", just_now: "now",
  pools: "Pools", c_pool: "Pool", c_engine: "Engine", c_have: "Nodes", c_next: "Next", pool_have: "{live} of {wanted} run, {waiting} wait", down: "down",
  allocations: "Allocations", c_name: "Name", c_program: "Program", allocated: "allocated", release: "Give back",
  release_ask: "Give back the GPUs of {name}? What runs on them is ended.",

  task_title: "Task {n}", why: "Why it waits", facts: "What it is", f_command: "Command", f_script: "Script", f_gpus: "GPUs", f_lane: "Lane", f_priority: "Priority",
  f_cwd: "Directory", f_user: "Submitted by", f_submitted: "Submitted", f_started: "Started", f_ran: "Ran for", f_limit: "Time limit", f_node: "Node",
  f_exit: "Result", f_memory: "Memory on each GPU", f_after: "After tasks", f_retries: "Retries", f_attempts: "Attempts", f_peak: "Peak memory of its GPUs", f_again: "Before that",
  f_pid: "Processes", f_log: "Log file",
  elements_of: "Elements", failed_only: "Only the {n} that failed", element_number: "Element", element_failed: "{id}: {how}", all_elements: "All elements of task {n}",
  pause: "Pause", resume: "Resume", retry: "Run it again", set_priority: "Set priority", pause_lane: "Pause lane {lane}", resume_lane: "Resume lane {lane}",
  follow: "Follow", follow_stop: "Hold still", to_end: "To the end", log_of: "Log of task {n}", log_of_attempt: "Log of task {n}, attempt {k}", log_from: "The first {kib} KiB are not shown.", log_cut: "Only the last {n} lines are shown.",
  log_ended: "It has ended.", log_none: "There is no log yet.", log_live: "Following", log_still: "Held still; {n} new lines", log_broken: "The log broke off: {why}. Trying again.",
  stop_ask: "Stop task {n}, {name}?", stop_how: "It is told to end, and has its grace time to do so. It is not run again.", stop_wait: "It waits, and will not be run.",
  stop_go: "Stop it", stop_now: "Stop it at once", done_said: "Done: {text}",

  s_command: "Command", s_command_how: "For the shell, as you would type it.", s_gpus: "GPUs", s_gpus_how: "0, a number, or all", s_name: "Name", s_name_how: "Otherwise the program's",
  s_lane: "Lane", s_lane_how: "Tasks of a lane run one after another", s_priority: "Priority", s_priority_how: "Lower runs first; otherwise 500", s_timeout: "Time limit", s_timeout_how: "90m, 1h30m; otherwise none",
  s_cwd: "Directory", s_cwd_how: "Absolute; otherwise your home directory", s_more: "More", s_memory: "Memory on each GPU", s_memory_how: "20G, or auto; otherwise whole GPUs",
  s_retries: "Retries", s_retries_how: "After a failure; a number or forever", s_env: "Environment", s_env_how: "NAME=VALUE, one per line", s_go: "Submit", s_going: "Submitting", s_done: "Task {n} is in the queue.",
  refused: "Refused:", h_change: "Change what is held", h_on: "Hold again", h_off: "Hold nothing", h_off_ask: "Hold nothing from now on?",
  h_off_how: "What is held is let go of, and anybody may take it. Tasks run on.", h_title: "What is held, and when", h_go: "Change", h_same: "Nothing has changed.",
  h_how: "It lasts as long as the agent. What stays selected stays held. An empty field takes back what was said: the files count again.",
  h_hold: "Hold GPUs that are idle", h_together: "Only when all of them are idle", h_gpus: "GPUs", h_gpus_how: "all, or numbers with commas", h_memory: "Memory on each GPU", h_memory_how: "40G, 88%, or all-2G",
  h_idle_for: "Held when idle for", h_idle_for_how: "5m; 0: at once", h_rehold_after: "After a yield, idle for", h_rehold_after_how: "1m", h_leave: "Leave to others", h_leave_how: "So many, from the last one",
  h_max_devices: "At most so many", h_max_devices_how: "Held and used; 0: no limit", h_load: "Load", h_util_band: "Use of a held GPU, per cent", h_util_band_how: "Below the first much faster, up to the third is right: 50,70,85",
  h_util: "Use that the load aims at", h_util_how: "Per cent; otherwise the band's middle", h_work: "The load works for", h_work_how: "With rest; 0: without a pause", h_rest: "And rests for",
  h_idle_below: "Idle while less is used than", h_idle_below_how: "1G", h_refresh: "Look for idle ones every", h_ignore_pid: "Hold beside processes", h_ignore_pid_how: "Their PIDs, with commas", h_my_cgroup: "Processes of its cgroup are yours",
  asks: "Who asks for a GPU", a_text: "{who} asks for {gpu}", a_title: "Answer {who}: {gpu}", a_yes: "Give it", a_no: "Refuse",
  ay_how: "The tasks on it are requeued, which is no try. It is left to them until they have come, for 10 minutes at most.", ay_message: "Message", ay_stop: "Stop what is never requeued (--no-requeue, an allocation)", ay_go: "Give it",
  an_how: "The task runs on, and they are told.", an_message: "Message", an_go: "Refuse",
  p_title: "Nodes of an engine", p_new: "Want nodes", p_tick: "Look now", p_change: "Change", p_again: "Want them again", of_pool: "{what}: pool {name}", p_go: "Want them",
  p_how: "What is left empty stays as it is, or has its default.", p_name: "Pool", p_name_how: "Otherwise main", p_engine: "Engine", p_engine_how: "Otherwise the one that answers", p_gpus: "GPUs of each node",
  p_nodes: "Nodes at once", p_nodes_how: "So many now, and no more at a time", p_min: "At least", p_min_how: "Nodes, whatever waits", p_max: "At most", p_max_how: "Nodes, whatever waits", p_total_gpus: "GPUs of all nodes, at most",
  p_time: "Time of each job", p_time_how: "24h", p_keep: "Hold the GPUs when nothing is to run", p_keep_for: "For so long at most", p_keep_for_how: "Otherwise 24h", p_only: "Only tasks that name the pool", p_relay: "Queue the next job before one ends",
  p_type: "Kind of GPU", p_type_how: "In the engine's words", p_cpus: "Processors of each node", p_node_memory: "Memory of each node", p_node_memory_how: "64G", p_idle_exit: "An agent leaves when idle for", p_idle_exit_how: "5m",
  p_set: "What the engine needs besides", p_set_how: "KEY=VALUE, one per line", p_agent_option: "Options of its agents", p_agent_option_how: "--load=gemm, one per line", p_options: "Words for the engine", p_options_how: "--partition=gpu, one per line",
  p_down_ask: "Give back the nodes of pool {name}?", p_down_how: "Nothing more is asked for. What runs there may end, or, at once, is requeued and waits for the next node.", p_down_later: "When tasks have ended", p_down_now: "At once",

  s_need: "A task needs a command.", s_refused: "Not submitted:", s_after: "After tasks", s_after_how: "Their numbers, with commas",

  keys: "Keys", k_help: "this list", k_submit: "submit a task", k_hold: "change what is held", k_filter: "filter the queue", k_gpus: "to the GPUs", k_queue: "to the queue", k_events: "to the events", k_theme: "other colours",
  k_language: "other language", k_refresh: "refresh now", k_strip: "on a strip: back and forth in time", k_esc: "close", keys_on: "Single keys do this",
  footer_api: "What can be asked by programs", footer_of: "tenure {version}, instance {instance}",
  said_started: "Task {n} {name} has started.", said_done: "Task {n} {name} is done.", said_failed: "Task {n} {name} has failed.", said_yield: "{gpu} was yielded to {who}.", said_more: "And {n} more.",
  u_s: "{n} s", u_m: "{n} min", u_h: "{n} h", u_hm: "{h} h {m} min", u_d: "{d} d {h} h", u_now: "0 s",
};

const zh = {
  language: "中文",
  title: "tenure",
  skip: "跳到 GPU",
  menu: "页面",
  theme: "配色", theme_auto: "跟随系统", theme_light: "浅色", theme_dark: "深色",
  switch_language: "语言",
  help: "快捷键", refresh: "刷新", submit: "提交任务", close: "关闭", cancel: "取消",
  read_only: "只读",
  starting: "请稍候", live: "实时", old: "未连接", late: "未更新",
  late_since: "内容不全是最新的：{why}。部分内容是 {time} 的，已过 {ago}。正在重试。",
  old_since: "未连接：{why}。以下内容是 {time} 的，已过 {ago}。",
  never_seen: "未连接：{why}。",
  again_in: "{s} 秒后重试。", again_now: "立即重试", again: "正在重试。",
  no_answer: "tenure serve 没有响应",
  agent_gone: "本节点的代理不在：{why}。GPU 显示的是 {time} 的情况，已过 {ago}。",
  agent_none: "本节点的代理不在：{why}。",
  queue_trouble: "无法读取队列：{why}。队列内容可能已过时。",
  back: "已重新连接。", lost: "连接已断开。",

  signin: "请验证身份",
  signin_how: "`tenure web` 打印的地址中带有令牌，可直接打开本页。也可在此输入令牌。",
  token: "令牌", signin_go: "进入", token_form: "令牌为 64 位数字和 a 到 f 的字母。",

  gpus: "GPU", no_gpus: "这里没有已知的 GPU。", gpu: "GPU {n}", mig: "GPU {n} 实例 {m}",
  held: "占住", task: "任务", foreign: "他人", idle: "空闲", left: "留出", fault: "故障", blind: "不可见", gap: "无记录",
  count_held: "为您占住", count_task: "运行任务", count_foreign: "他人使用", count_idle: "空闲", count_left: "留给他人",
  count_fault: "有故障", count_blind: "不可见",
  letter_held: "占", letter_task: "任", letter_foreign: "他", letter_idle: "闲", letter_left: "留", letter_fault: "障", letter_blind: "?",
  for_time: "已 {t}", hold_in: "{t} 后占住", nobody: "无人使用",
  held_as: "占住 {held} GiB，有人来即让出",
  held_for_task: "为任务 {n}，它还需要更多", left_for_others: "留给他人，从不占住",
  untouched: "在它使用之前一直为它占住", gpu_on: "{node} 的 {gpu}",
  yielding: "正在让给来者",
  memory: "显存", utilisation: "利用率", memory_of: "{used} / {total} GiB", watts: "{n} / {max} W",
  per_cent: "{n} %", unknown: "未知", band: "我方负载保持在 {a} 到 {b} %",
  strip_of: "{gpu} 过去 24 小时", strip_sum: "{gpu} 过去 24 小时：{parts}。", strip_yields: "让出 {n} 次",
  strip_point: "{from} 至 {to}：{state}", strip_util: "利用率 {n} %", strip_power: "{n} W", strip_task: "任务 {n}",
  strip_yield: "{time} 让给 {who}，{ms} 毫秒后空出",
  legend: "条带图例", legend_yield: "让出",
  gpus_of: "{node} 的 GPU", node_here: "{node}，本机", as_of: "{t}前的情况", silent: "无心跳", quarantined: "已隔离：不再分配任务",
  legend_use: "折线：利用率", now: "现在", loading: "请稍候：正在获取过去 24 小时的记录。", no_history: "过去 24 小时的情况未知：{why}。",

  queue: "队列", running: "运行中", waiting: "等待中", ended: "已结束",
  filter: "名称前缀", filter_lane: "队伍", all_lanes: "所有队伍",
  none_running: "没有运行中的任务。", none_waiting: "没有等待的任务。", none_ended: "还没有任务结束。", none_match: "没有匹配的任务。",
  not_read: "队列尚未读取。",
  c_task: "任务", c_lane: "队伍", c_gpus: "GPU", c_time: "时间", c_why: "等待原因", c_when: "预计开始", c_result: "结果", c_ended: "结束于",
  c_node: "节点", c_actions: "操作", c_priority: "优先级",
  all: "全部", on_gpus: "在 {list}", of_limit: "{t}，上限 {max}", no_limit: "{t}", elements: "{n} 个元素",
  n_gpus: "{n} 个 GPU", no_gpu: "无", gpu_list: "GPU {list}",
  batch_running: "{n} 个运行", batch_waiting: "{n} 个等待", batch_done: "{n} 个完成", batch_failed: "{n} 个失败", batch_cancelled: "{n} 个停止",
  priority_n: "优先级 {n}", attempt_n: "第 {n} 次尝试",
  paused: "已暂停", lane_paused: "所在队伍已暂停", not_before: "不早于 {time}",
  when_range: "{a} 至 {b} 后", when_within: "{b} 之内", when_least: "至少 {a} 后", when_unknown: "未知", when_after: "未知：在任务 {n} 之后", when_many: "前面还有很多任务",
  when_soon: "即将",
  ending_since: "{time} 起正在结束",
  runs: "运行中", done: "完成", failed: "失败", cancelled: "已停止", pending: "等待中", exit_n: "退出码 {n}", signal_n: "信号 {n}",
  log: "日志", stop: "停止", details: "详情", page_next: "下一页", page_previous: "上一页", page_first: "回到开头", page_at: "第 {a} 到 {b} 个，共 {n} 个", more_ended: "更多",
  of_task: "任务 {n} 的{what}",

  yields: "让出记录", no_yields: "过去 24 小时没有让出。", c_when_was: "时间", c_to: "让给", c_freed: "释放", c_latency: "速度",
  latency: "{a} 毫秒后发现，再 {b} 毫秒后空出", latency_free: "发现后 {b} 毫秒空出", ms: "{n} 毫秒", somebody: "不明（只见显存增长）",
  key_seen: "到发现为止", key_freed: "到显存空出为止",
  last_yield: "最近一次让出：{gpu} 让给 {who}，{ago}前，{ms} 毫秒后空出。", never_yielded: "过去 24 小时没有让出。",
  events: "事件", no_events: "还没有事件。", error: "错误", warning: "警告",

  nodes: "节点", no_nodes: "没有节点为此队列服务。", c_state: "状态", c_deadline: "截止", c_heard: "心跳", c_job: "作业",
  alive: "在线", gone: "失联", off: "已关闭", here: "本机", draining: "排空中", never: "无截止时间", in_time: "{t} 后", passed: "已过", ago: "{t}前", just_now: "刚刚",
  pools: "资源池", c_pool: "资源池", c_engine: "引擎", c_have: "节点", c_next: "下一步", pool_have: "运行 {live} / 需要 {wanted}，等待 {waiting}", down: "已下线",
  allocations: "分配", c_name: "名称", c_program: "程序", allocated: "已分配", release: "归还",
  release_ask: "归还 {name} 的 GPU？其上运行的程序会被结束。",

  task_title: "任务 {n}", why: "等待原因", facts: "任务内容", f_command: "命令", f_script: "脚本", f_gpus: "GPU", f_lane: "队伍", f_priority: "优先级",
  f_cwd: "目录", f_user: "提交者", f_submitted: "提交于", f_started: "开始于", f_ran: "已运行", f_limit: "时限", f_node: "节点",
  f_exit: "结果", f_memory: "每个 GPU 的显存", f_after: "在任务之后", f_retries: "重试", f_attempts: "尝试次数", f_peak: "GPU 显存峰值", f_again: "此前",
  f_pid: "进程", f_log: "日志文件",
  elements_of: "元素", failed_only: "只看失败的 {n} 个", element_number: "元素", element_failed: "{id}：{how}", all_elements: "任务 {n} 的所有元素",
  pause: "暂停", resume: "继续", retry: "再次运行", set_priority: "设置优先级", pause_lane: "暂停队伍 {lane}", resume_lane: "继续队伍 {lane}",
  follow: "跟随", follow_stop: "定住", to_end: "到末尾", log_of: "任务 {n} 的日志", log_of_attempt: "任务 {n} 第 {k} 次尝试的日志", log_from: "前 {kib} KiB 未显示。", log_cut: "只显示最后 {n} 行。",
  log_ended: "任务已结束。", log_none: "还没有日志。", log_live: "跟随中", log_still: "已定住；新增 {n} 行", log_broken: "日志中断：{why}。正在重试。",
  stop_ask: "停止任务 {n} {name}？", stop_how: "会通知它结束，并给它宽限时间。不会再次运行。", stop_wait: "它在等待，将不再运行。",
  stop_go: "停止", stop_now: "立即停止", done_said: "完成：{text}",

  s_command: "命令", s_command_how: "由 shell 执行，与平时输入相同。", s_gpus: "GPU 数", s_gpus_how: "0、数字或 all", s_name: "名称", s_name_how: "默认为程序名",
  s_lane: "队伍", s_lane_how: "同一队伍的任务依次运行", s_priority: "优先级", s_priority_how: "数字小者先运行；默认 500", s_timeout: "时限", s_timeout_how: "90m、1h30m；默认无",
  s_cwd: "目录", s_cwd_how: "绝对路径；默认为主目录", s_more: "更多", s_memory: "每个 GPU 的显存", s_memory_how: "20G 或 auto；默认整卡",
  s_retries: "重试", s_retries_how: "失败后；数字或 forever", s_env: "环境变量", s_env_how: "NAME=VALUE,每行一个", s_go: "提交", s_going: "正在提交", s_done: "任务 {n} 已进入队列。",
  refused: "被拒绝：", h_change: "更改占用策略", h_on: "重新占住", h_off: "停止占住", h_off_ask: "从现在起不再占住任何 GPU？",
  h_off_how: "已占住的会被放开，任何人都可以使用。任务照常运行。", h_title: "占住哪些，何时占住", h_go: "更改", h_same: "没有变化。",
  h_how: "在代理运行期间有效。仍在选择范围内的保持占住。留空表示撤回所设的值，以配置文件为准。",
  h_hold: "占住空闲的 GPU", h_together: "全部空闲时才占住", h_gpus: "GPU", h_gpus_how: "all，或用逗号分隔的编号", h_memory: "每个 GPU 的显存", h_memory_how: "40G、88% 或 all-2G",
  h_idle_for: "空闲多久后占住", h_idle_for_how: "5m；0 为立即", h_rehold_after: "让出后空闲多久再占住", h_rehold_after_how: "1m", h_leave: "留给他人", h_leave_how: "从最后一个算起的个数",
  h_max_devices: "最多个数", h_max_devices_how: "占住和使用合计；0 为不限", h_load: "负载", h_util_band: "占住时的利用率（%）", h_util_band_how: "低于第一个值则加快，到第三个值为止正合适：50,70,85",
  h_util: "负载的目标利用率", h_util_how: "百分数；默认为区间中值", h_work: "负载运行", h_work_how: "与休息配合；0 为不停", h_rest: "然后休息",
  h_idle_below: "显存占用低于此值算空闲", h_idle_below_how: "1G", h_refresh: "查找空闲的间隔", h_ignore_pid: "与这些进程并存", h_ignore_pid_how: "PID，用逗号分隔", h_my_cgroup: "同一 cgroup 的进程算自己的",
  asks: "请求 GPU 的人", a_text: "{who} 请求 {gpu}", a_title: "答复 {who}：{gpu}", a_yes: "让出", a_no: "拒绝",
  ay_how: "其上的任务会重新排队，不算一次尝试。GPU 留给对方，直到对方到来，最多 10 分钟。", ay_message: "留言", ay_stop: "停止不可重新排队的（--no-requeue、分配）", ay_go: "让出",
  an_how: "任务继续运行，对方会得到通知。", an_message: "留言", an_go: "拒绝",
  p_title: "引擎的节点", p_new: "申请节点", p_tick: "立即检查", p_change: "更改", p_again: "重新申请", of_pool: "{what}：资源池 {name}", p_go: "申请",
  p_how: "留空的保持不变，或取默认值。", p_name: "资源池", p_name_how: "默认 main", p_engine: "引擎", p_engine_how: "默认为有响应的引擎", p_gpus: "每个节点的 GPU 数",
  p_nodes: "同时的节点数", p_nodes_how: "现在就要这么多，且不超过", p_min: "至少", p_min_how: "节点数，无论有无任务", p_max: "至多", p_max_how: "节点数，无论有无任务", p_total_gpus: "所有节点的 GPU 上限",
  p_time: "每个作业的时长", p_time_how: "24h", p_keep: "无任务时也占住 GPU", p_keep_for: "最长", p_keep_for_how: "默认 24h", p_only: "只运行指定此池的任务", p_relay: "作业结束前先排下一个",
  p_type: "GPU 型号", p_type_how: "按引擎的写法", p_cpus: "每个节点的处理器数", p_node_memory: "每个节点的内存", p_node_memory_how: "64G", p_idle_exit: "代理空闲多久后离开", p_idle_exit_how: "5m",
  p_set: "引擎另需的设置", p_set_how: "KEY=VALUE，每行一个", p_agent_option: "代理的选项", p_agent_option_how: "--load=gemm，每行一个", p_options: "给引擎的参数", p_options_how: "--partition=gpu，每行一个",
  p_down_ask: "归还资源池 {name} 的节点？", p_down_how: "不再申请新节点。其上的任务可以运行到结束；若立即归还，则重新排队等待下一个节点。", p_down_later: "任务结束后", p_down_now: "立即",

  s_need: "任务需要一条命令。", s_refused: "未提交：", s_after: "在任务之后", s_after_how: "任务编号，用逗号分隔",

  keys: "快捷键", k_help: "显示此列表", k_submit: "提交任务", k_hold: "更改占用策略", k_filter: "筛选队列", k_gpus: "到 GPU", k_queue: "到队列", k_events: "到事件", k_theme: "切换配色",
  k_language: "切换语言", k_refresh: "立即刷新", k_strip: "在条带上：按时间前后移动", k_esc: "关闭", keys_on: "启用单键快捷键",
  footer_api: "程序可用的接口", footer_of: "tenure {version}，实例 {instance}",
  said_started: "任务 {n} {name} 已开始。", said_done: "任务 {n} {name} 已完成。", said_failed: "任务 {n} {name} 失败。", said_yield: "{gpu} 已让给 {who}。", said_more: "另有 {n} 条。",
  u_s: "{n} 秒", u_m: "{n} 分钟", u_h: "{n} 小时", u_hm: "{h} 小时 {m} 分", u_d: "{d} 天 {h} 小时", u_now: "0 秒",
};

// Why a task waits, by its code (docs/json.md), where the program's own words are not in the reader's language.
// What is said of one, where a language says it in another way.
const ones = {
  en: {
    strip_yields: "1 yield", elements: "1 element", n_gpus: "1 GPU", count_task: "runs tasks", batch_running: "1 runs", batch_waiting: "1 waits",
    log_still: "Held still; 1 new line", failed_only: "Only the 1 that failed",
  },
  zh: {},
};

const reasons = {
  zh: {
    gpus: "等待 GPU", "no-fit": "本机的 GPU 都不符合要求", "few-gpus": "本机没有这么多 GPU", "max-devices": "超过允许的 GPU 数", "max-devices-now": "已达到 GPU 数上限",
    "cpu-slots": "等待不用 GPU 的任务结束", pool: "指定了另一个资源池", "too-late": "来不及在截止时间前结束", backoff: "等待下一次尝试", begin: "未到开始时间",
    depends: "等待其他任务结束", never: "因另一任务而永远不能运行", paused: "已暂停", changing: "正在修改", "lane-paused": "队伍已暂停", "lane-full": "队伍已满",
    "lane-task": "队伍中另一任务在前", "lane-behind": "队伍中排在后面", "array-full": "数组同时运行数已满", "array-behind": "数组中排在后面", gang: "需要多个节点同时就绪",
    "lane-elsewhere": "由另一节点启动该队伍", "array-elsewhere": "由另一节点启动该数组", "next-plan": "即将开始", ready: "可以开始", requeued: "等待下一次尝试",
    unreadable: "无法读取任务文件", "read-again": "正在重新读取任务文件", draining: "本机正在排空", "no-agent": "没有代理在服务",
  },
};

export const languages = { en, zh };

let words = en, code = "en";

export function language() { return code; }

export function speak(wanted) {
  code = languages[wanted] ? wanted : "en";
  words = languages[code];
  document.documentElement.lang = code === "zh" ? "zh-CN" : "en";
}

// t("of_limit", { t: "3 s", max: "1 h" })
export function t(key, values) {
  const text = (Number(values?.n) === 1 && (ones[code][key] ?? words[key])) || (words[key] ?? en[key] ?? key);
  return values ? text.replace(/\{(\w+)\}/g, (_, name) => values[name] ?? "") : text;
}

export function has(key) { return key in en; }

// The reason in the reader's language, or null: the program's own words are all there is.
export function reasonText(reasonCode) { return reasons[code]?.[reasonCode] ?? null; }

// What is written into the document by hand.
export function translate(root) {
  for (const el of root.querySelectorAll("[data-t]")) el.textContent = t(el.dataset.t);
  for (const el of root.querySelectorAll("[data-t-label]")) el.setAttribute("aria-label", t(el.dataset.tLabel));
  for (const el of root.querySelectorAll("[data-t-title]")) el.title = t(el.dataset.tTitle);
}

export function duration(s) {
  if (s === null || s === undefined || !Number.isFinite(s)) return t("unknown");
  s = Math.max(0, s);
  if (s < 60) return t("u_s", { n: Math.floor(s) });
  const m = Math.floor(s / 60), h = Math.floor(m / 60), d = Math.floor(h / 24);
  if (h === 0) return t("u_m", { n: m });
  if (d > 0) return t("u_d", { d, h: h % 24 });
  return h >= 10 || m % 60 === 0 ? t("u_h", { n: h }) : t("u_hm", { h, m: m % 60 });
}

// The clock of the machine that is shown: a browser's own may be wrong, or set to something else.
let ahead = 0;

export function setClock(time) {
  const by = Date.parse(time) - Date.now();
  ahead = Math.abs(by) > 3000 ? by : 0; // what it tells is a second old
}

export function now() { return Date.now() + ahead; }

export function gib(bytes) {
  return bytes === null || bytes === undefined ? t("unknown") : (bytes / 2 ** 30).toFixed(1);
}

// By hand: the first use of Intl takes a browser 10 to 40 ms, for which the page's first data would wait.
const MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec".split(" ");

function digits(...all) { return all.map((n) => String(n).padStart(2, "0")).join(":"); }

export function clock(date) { return digits(date.getHours(), date.getMinutes(), date.getSeconds()); }
export function hour(date) { return digits(date.getHours(), date.getMinutes()); }
export function moment(date) {
  const month = date.getMonth(), day = date.getDate();
  return code === "zh" ? `${month + 1}月${day}日 ${hour(date)}` : `${day} ${MONTHS[month]}, ${hour(date)}`;
}
