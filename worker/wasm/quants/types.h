// The quantised storage types by their id in a file.
#pragma once
#include "iq1_m.h"
#include "iq1_s.h"
#include "iq2_s.h"
#include "iq2_xs.h"
#include "iq2_xxs.h"
#include "iq3_s.h"
#include "iq3_xxs.h"
#include "iq4_nl.h"
#include "iq4_xs.h"
#include "mxfp4.h"
#include "q2_k.h"
#include "q3_k.h"
#include "q4_0.h"
#include "q4_1.h"
#include "q4_k.h"
#include "q5_0.h"
#include "q5_1.h"
#include "q5_k.h"
#include "q6_k.h"
#include "q8_0.h"
#include "tq1_0.h"
#include "tq2_0.h"

enum { TYPE_F32 = 0, TYPE_F16 = 1, TYPE_BF16 = 30, N_TYPES = 40 };

#define QUANT_TYPES(X)                                                                       \
    X(2, q4_0) X(3, q4_1) X(6, q5_0) X(7, q5_1) X(8, q8_0) X(10, q2_k) X(11, q3_k)           \
    X(12, q4_k) X(13, q5_k) X(14, q6_k) X(16, iq2_xxs) X(17, iq2_xs) X(18, iq3_xxs)          \
    X(19, iq1_s) X(20, iq4_nl) X(21, iq3_s) X(22, iq2_s) X(23, iq4_xs) X(29, iq1_m)          \
    X(34, tq1_0) X(35, tq2_0) X(39, mxfp4)
