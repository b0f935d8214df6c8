/* SPDX-License-Identifier: MIT */
#ifndef TENURE_BASE_SETTINGS_TABLE_H
#define TENURE_BASE_SETTINGS_TABLE_H

/* The rows of the settings, indexed by enum setting_id. Others read them through setting_row(). */

#include "base/settings.h"

extern const struct setting settings_table[SET_MAX];

#endif
